-- rocpd 3.0.0, the views that tools query. They stand on the unsuffixed table views (rocpd_kernel_dispatch, ...), and join
-- by (id, guid), so that databases merged under the same names stay apart.

CREATE VIEW processes AS
SELECT n.id AS nid, n.machine_id, n.system_name, n.hostname, n.release AS system_release, n.version AS system_version,
       n.guid, p.ppid, p.pid, p.init, p.start, p.end, p.fini, p.command
FROM rocpd_info_process p JOIN rocpd_info_node n ON n.id = p.nid AND n.guid = p.guid;

CREATE VIEW threads AS
SELECT n.id AS nid, n.machine_id, n.system_name, n.hostname, n.release AS system_release, n.version AS system_version,
       t.guid, p.ppid, p.pid, t.tid, t.start, t.end, t.name
FROM rocpd_info_thread t
JOIN rocpd_info_process p ON p.id = t.pid AND p.guid = t.guid
JOIN rocpd_info_node n ON n.id = t.nid AND n.guid = t.guid;

CREATE VIEW code_objects AS
SELECT c.id, c.guid, c.nid, p.pid, a.absolute_index AS agent_abs_index, c.uri, c.load_base, c.load_size, c.load_delta,
       c.storage_type, json_extract(c.extdata, '$.size') AS size_str,
       json_extract(c.extdata, '$.storage_type') AS storage_type_str,
       json_extract(c.extdata, '$.memory_base') AS memory_base,
       json_extract(c.extdata, '$.memory_size') AS memory_size
FROM rocpd_info_code_object c
JOIN rocpd_info_process p ON p.id = c.pid AND p.guid = c.guid
LEFT JOIN rocpd_info_agent a ON a.id = c.agent_id AND a.guid = c.guid;

CREATE VIEW kernel_symbols AS
SELECT k.id, k.guid, k.nid, p.pid, k.code_object_id, k.kernel_name, k.display_name, k.kernel_object,
       k.kernarg_segment_size, k.kernarg_segment_alignment, k.group_segment_size, k.private_segment_size,
       k.sgpr_count, k.arch_vgpr_count, k.accum_vgpr_count,
       json_extract(k.extdata, '$.size') AS kernel_symbol_size,
       json_extract(k.extdata, '$.kernel_id') AS kernel_id,
       json_extract(k.extdata, '$.kernel_code_entry_byte_offset') AS kernel_code_entry_byte_offset,
       json_extract(k.extdata, '$.formatted_kernel_name') AS formatted_kernel_name,
       json_extract(k.extdata, '$.demangled_kernel_name') AS demangled_kernel_name,
       json_extract(k.extdata, '$.truncated_kernel_name') AS truncated_kernel_name,
       json_extract(k.extdata, '$.kernel_address.handle') AS kernel_address
FROM rocpd_info_kernel_symbol k
JOIN rocpd_info_process p ON p.id = k.pid AND p.guid = k.guid;

CREATE VIEW kernels AS
SELECT d.id, d.guid, t.tid, category.string AS category, region.string AS region, k.display_name AS name, d.nid, p.pid,
       a.absolute_index AS agent_abs_index, a.logical_index AS agent_log_index, a.type_index AS agent_type_index,
       a.type AS agent_type, k.code_object_id, d.kernel_id, d.dispatch_id, d.stream_id, d.queue_id,
       q.name AS queue, st.name AS stream, d.start, d.end, (d.end - d.start) AS duration,
       d.grid_size_x AS grid_x, d.grid_size_y AS grid_y, d.grid_size_z AS grid_z,
       d.workgroup_size_x AS workgroup_x, d.workgroup_size_y AS workgroup_y, d.workgroup_size_z AS workgroup_z,
       d.group_segment_size AS lds_size, d.private_segment_size AS scratch_size,
       k.arch_vgpr_count AS vgpr_count, k.accum_vgpr_count, k.sgpr_count,
       k.group_segment_size AS static_lds_size, k.private_segment_size AS static_scratch_size,
       e.stack_id, e.parent_stack_id, e.correlation_id AS corr_id
FROM rocpd_kernel_dispatch d
JOIN rocpd_event e ON e.id = d.event_id AND e.guid = d.guid
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_string region ON region.id = d.region_name_id AND region.guid = d.guid
JOIN rocpd_info_kernel_symbol k ON k.id = d.kernel_id AND k.guid = d.guid
JOIN rocpd_info_agent a ON a.id = d.agent_id AND a.guid = d.guid
JOIN rocpd_info_queue q ON q.id = d.queue_id AND q.guid = d.guid
JOIN rocpd_info_stream st ON st.id = d.stream_id AND st.guid = d.guid
JOIN rocpd_info_process p ON p.id = d.pid AND p.guid = d.guid
JOIN rocpd_info_thread t ON t.id = d.tid AND t.guid = d.guid;

CREATE VIEW pmc_info AS
SELECT c.id, c.guid, c.nid, p.pid, a.absolute_index AS agent_abs_index, c.is_constant, c.is_derived, c.name,
       c.description, c.block, c.expression
FROM rocpd_info_pmc c
JOIN rocpd_info_process p ON p.id = c.pid AND p.guid = c.guid
JOIN rocpd_info_agent a ON a.id = c.agent_id AND a.guid = c.guid;

CREATE VIEW pmc_events AS
SELECT v.id, v.guid, v.pmc_id, v.event_id, category.string AS category, k.display_name AS name, d.nid, p.pid,
       d.dispatch_id, d.start, d.end, (d.end - d.start) AS duration, c.name AS counter_name, v.value AS counter_value
FROM rocpd_pmc_event v
JOIN rocpd_info_pmc c ON c.id = v.pmc_id AND c.guid = v.guid
JOIN rocpd_event e ON e.id = v.event_id AND e.guid = v.guid
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_kernel_dispatch d ON d.event_id = v.event_id AND d.guid = v.guid
JOIN rocpd_info_kernel_symbol k ON k.id = d.kernel_id AND k.guid = d.guid
JOIN rocpd_info_process p ON p.id = d.pid AND p.guid = d.guid;

CREATE VIEW counters_collection AS
SELECT MIN(v.id) AS id, v.guid, d.dispatch_id, d.kernel_id, e.id AS event_id, e.correlation_id, e.stack_id,
       e.parent_stack_id, p.pid, t.tid, d.agent_id, a.absolute_index AS agent_abs_index,
       a.logical_index AS agent_log_index, a.type_index AS agent_type_index, a.type AS agent_type, d.queue_id,
       d.grid_size_x, d.grid_size_y, d.grid_size_z, (d.grid_size_x * d.grid_size_y * d.grid_size_z) AS grid_size,
       k.display_name AS kernel_name, region.string AS kernel_region,
       d.workgroup_size_x, d.workgroup_size_y, d.workgroup_size_z,
       (d.workgroup_size_x * d.workgroup_size_y * d.workgroup_size_z) AS workgroup_size,
       d.group_segment_size AS lds_block_size, d.private_segment_size AS scratch_size,
       k.arch_vgpr_count AS vgpr_count, k.accum_vgpr_count, k.sgpr_count,
       c.name AS counter_name, c.symbol AS counter_symbol, c.component, c.description, c.block, c.expression,
       c.value_type, c.id AS counter_id, SUM(v.value) AS value, d.start, d.end, c.is_constant, c.is_derived,
       (d.end - d.start) AS duration, category.string AS category, d.nid, e.extdata, k.code_object_id
FROM rocpd_pmc_event v
JOIN rocpd_info_pmc c ON c.id = v.pmc_id AND c.guid = v.guid
JOIN rocpd_event e ON e.id = v.event_id AND e.guid = v.guid
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_kernel_dispatch d ON d.event_id = v.event_id AND d.guid = v.guid
JOIN rocpd_info_agent a ON a.id = d.agent_id AND a.guid = d.guid
JOIN rocpd_info_kernel_symbol k ON k.id = d.kernel_id AND k.guid = d.guid
JOIN rocpd_string region ON region.id = d.region_name_id AND region.guid = d.guid
JOIN rocpd_info_process p ON p.id = d.pid AND p.guid = d.guid
JOIN rocpd_info_thread t ON t.id = d.tid AND t.guid = d.guid
GROUP BY v.guid, d.dispatch_id, c.name, d.agent_id;

CREATE VIEW memory_copies AS
SELECT m.id, m.guid, category.string AS category, m.nid, p.pid, t.tid, m.start, m.end, (m.end - m.start) AS duration,
       name.string AS name, region.string AS region_name, m.stream_id, m.queue_id, st.name AS stream_name,
       q.name AS queue_name, m.size, dst.name AS dst_device, dst.absolute_index AS dst_agent_abs_index,
       dst.logical_index AS dst_agent_log_index, dst.type_index AS dst_agent_type_index, dst.type AS dst_agent_type,
       m.dst_address, src.name AS src_device, src.absolute_index AS src_agent_abs_index,
       src.logical_index AS src_agent_log_index, src.type_index AS src_agent_type_index, src.type AS src_agent_type,
       m.src_address, e.stack_id, e.parent_stack_id, e.correlation_id AS corr_id
FROM rocpd_memory_copy m
JOIN rocpd_string name ON name.id = m.name_id AND name.guid = m.guid
JOIN rocpd_event e ON e.id = m.event_id AND e.guid = m.guid
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_info_process p ON p.id = m.pid AND p.guid = m.guid
JOIN rocpd_info_thread t ON t.id = m.tid AND t.guid = m.guid
LEFT JOIN rocpd_string region ON region.id = m.region_name_id AND region.guid = m.guid
LEFT JOIN rocpd_info_queue q ON q.id = m.queue_id AND q.guid = m.guid
LEFT JOIN rocpd_info_stream st ON st.id = m.stream_id AND st.guid = m.guid
LEFT JOIN rocpd_info_agent dst ON dst.id = m.dst_agent_id AND dst.guid = m.guid
LEFT JOIN rocpd_info_agent src ON src.id = m.src_agent_id AND src.guid = m.guid;

CREATE VIEW memory_allocations AS
SELECT m.id, m.guid, category.string AS category, m.nid, p.pid, t.tid, m.start, m.end, (m.end - m.start) AS duration,
       m.type, m.level, a.name AS agent_name, a.absolute_index AS agent_abs_index, a.logical_index AS agent_log_index,
       a.type_index AS agent_type_index, a.type AS agent_type, m.address, m.size, m.queue_id, q.name AS queue_name,
       m.stream_id, st.name AS stream_name, e.stack_id, e.parent_stack_id, e.correlation_id AS corr_id
FROM rocpd_memory_allocate m
JOIN rocpd_event e ON e.id = m.event_id AND e.guid = m.guid
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_info_process p ON p.id = m.pid AND p.guid = m.guid
JOIN rocpd_info_thread t ON t.id = m.tid AND t.guid = m.guid
LEFT JOIN rocpd_info_agent a ON a.id = m.agent_id AND a.guid = m.guid
LEFT JOIN rocpd_info_queue q ON q.id = m.queue_id AND q.guid = m.guid
LEFT JOIN rocpd_info_stream st ON st.id = m.stream_id AND st.guid = m.guid;

CREATE VIEW scratch_memory AS
SELECT m.type AS operation, a.absolute_index AS agent_abs_index, a.logical_index AS agent_log_index,
       a.type_index AS agent_type_index, a.type AS agent_type, m.queue_id, p.pid, t.tid,
       json_extract(m.extdata, '$.flags') AS alloc_flags, m.start, m.end, m.size, m.address, e.correlation_id,
       e.stack_id, e.parent_stack_id, e.correlation_id AS corr_id, category.string AS category, e.extdata,
       m.id, m.guid, (m.end - m.start) AS duration
FROM rocpd_memory_allocate m
JOIN rocpd_event e ON e.id = m.event_id AND e.guid = m.guid
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_info_process p ON p.id = m.pid AND p.guid = m.guid
JOIN rocpd_info_thread t ON t.id = m.tid AND t.guid = m.guid
LEFT JOIN rocpd_info_agent a ON a.id = m.agent_id AND a.guid = m.guid
WHERE m.level = 'SCRATCH';

CREATE VIEW regions AS
SELECT r.id, r.guid, category.string AS category, name.string AS name, r.nid, p.pid, t.tid, r.start, r.end,
       (r.end - r.start) AS duration, r.event_id, e.stack_id, e.parent_stack_id, e.correlation_id AS corr_id, e.extdata,
       e.call_stack, e.line_info
FROM rocpd_region r
JOIN rocpd_event e ON e.id = r.event_id AND e.guid = r.guid
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_string name ON name.id = r.name_id AND name.guid = r.guid
JOIN rocpd_info_process p ON p.id = r.pid AND p.guid = r.guid
JOIN rocpd_info_thread t ON t.id = r.tid AND t.guid = r.guid;

CREATE VIEW samples AS
SELECT s.id, s.guid, category.string AS category, name.string AS name, tr.nid, p.pid, t.tid, s.timestamp, s.event_id,
       e.stack_id, e.parent_stack_id, e.correlation_id AS corr_id, e.extdata, e.call_stack, e.line_info
FROM rocpd_sample s
JOIN rocpd_track tr ON tr.id = s.track_id AND tr.guid = s.guid
JOIN rocpd_event e ON e.id = s.event_id AND e.guid = s.guid
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_string name ON name.id = tr.name_id AND name.guid = tr.guid
JOIN rocpd_info_process p ON p.id = tr.pid AND p.guid = tr.guid
JOIN rocpd_info_thread t ON t.id = tr.tid AND t.guid = tr.guid;

CREATE VIEW sample_regions AS
SELECT id, guid, category, name, nid, pid, tid, timestamp AS start, timestamp AS end, 0 AS duration, event_id, stack_id,
       parent_stack_id, corr_id, extdata, call_stack, line_info
FROM samples;

CREATE VIEW regions_and_samples AS
SELECT * FROM regions UNION ALL SELECT * FROM sample_regions;

CREATE VIEW events_args AS
SELECT e.id AS event_id, category.string AS category, e.stack_id, e.parent_stack_id, e.correlation_id,
       x.position AS arg_position, x.type AS arg_type, x.name AS arg_name, x.value AS arg_value, e.call_stack,
       e.line_info, e.extdata
FROM rocpd_event e
JOIN rocpd_string category ON category.id = e.category_id AND category.guid = e.guid
JOIN rocpd_arg x ON x.event_id = e.id AND x.guid = e.guid;

CREATE VIEW region_args AS
SELECT r.id, r.guid, r.nid, p.pid, x.type, x.name, x.value
FROM rocpd_region r
JOIN rocpd_info_process p ON p.id = r.pid AND p.guid = r.guid
JOIN rocpd_arg x ON x.event_id = r.event_id AND x.guid = r.guid;

CREATE VIEW stream_args AS
SELECT x.id AS argument_id, x.event_id, x.position, x.type, x.value, json_extract(x.extdata, '$.stream_id') AS stream_id,
       x.guid
FROM rocpd_arg x
WHERE x.type LIKE 'hipStream_t%';

-- Microseconds, unlike everything else in the file.
CREATE VIEW top_kernels AS
SELECT name, COUNT(*) AS total_calls, SUM(duration) / 1000.0 AS total_duration,
       AVG(duration) / 1000.0 AS average,
       SUM(duration) * 100.0 / (SELECT SUM(duration) FROM kernels) AS percentage
FROM kernels GROUP BY name ORDER BY total_duration DESC;

CREATE VIEW top AS
WITH work AS (
    SELECT name, duration FROM kernels
    UNION ALL SELECT name, duration FROM memory_copies
    UNION ALL SELECT name, duration FROM regions)
SELECT name, COUNT(*) AS total_calls, SUM(duration) / 1000.0 AS total_duration,
       AVG(duration) / 1000.0 AS average,
       SUM(duration) * 100.0 / (SELECT SUM(duration) FROM work) AS percentage
FROM work GROUP BY name ORDER BY total_duration DESC;

CREATE VIEW busy AS
WITH work AS (
    SELECT agent_id, guid, start, end FROM rocpd_kernel_dispatch
    UNION ALL SELECT dst_agent_id AS agent_id, guid, start, end FROM rocpd_memory_copy)
SELECT a.id AS agent_id, a.type, SUM(w.end - w.start) AS GpuTime,
       (SELECT MAX(end) - MIN(start) FROM work) AS WallTime,
       SUM(w.end - w.start) * 1.0 / (SELECT MAX(end) - MIN(start) FROM work) AS Busy
FROM work w JOIN rocpd_info_agent a ON a.id = w.agent_id AND a.guid = w.guid
GROUP BY a.guid, a.id;
