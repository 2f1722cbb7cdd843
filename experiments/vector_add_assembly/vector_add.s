// c[i] = a[i] + b[i] for i < n; BLOCK is the workgroup size.
// At entry: s[0:1] address of the arguments, s2 workgroup, v0 work-item in the workgroup.
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.amdhsa_code_object_version 5

.text
.globl vector_add
.p2align 8
.type vector_add,@function
vector_add:
  s_load_dwordx4 s[4:7], s[0:1], 0x0        // a, b
  s_load_dwordx2 s[8:9], s[0:1], 0x10       // c
  s_load_dword s3, s[0:1], 0x18             // n
  s_mul_i32 s2, s2, BLOCK
  v_add_u32_e32 v0, s2, v0
  s_waitcnt lgkmcnt(0)
  v_cmp_gt_i32_e32 vcc, s3, v0
  s_and_saveexec_b64 s[10:11], vcc
  s_cbranch_execz .Lend
  v_lshlrev_b32_e32 v0, 2, v0               // byte offset
  global_load_dword v1, v0, s[4:5]
  global_load_dword v2, v0, s[6:7]
  s_waitcnt vmcnt(0)
  v_add_f32_e32 v1, v1, v2
  global_store_dword v0, v1, s[8:9]
.Lend:
  s_endpgm
.size vector_add, .-vector_add

.rodata
.p2align 6
.amdhsa_kernel vector_add
  .amdhsa_kernarg_size 28
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_next_free_vgpr 3
  .amdhsa_next_free_sgpr 12
  .amdhsa_accum_offset 4
.end_amdhsa_kernel

.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--gfx942
amdhsa.kernels:
  - .name: vector_add
    .symbol: vector_add.kd
    .kernarg_segment_size: 28
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: 64
    .sgpr_count: 18
    .vgpr_count: 3
    .max_flat_workgroup_size: 1024
    .args:
      - {.name: a, .size: 8, .offset: 0, .value_kind: global_buffer, .address_space: global}
      - {.name: b, .size: 8, .offset: 8, .value_kind: global_buffer, .address_space: global}
      - {.name: c, .size: 8, .offset: 16, .value_kind: global_buffer, .address_space: global}
      - {.name: n, .size: 4, .offset: 24, .value_kind: by_value}
...
.end_amdgpu_metadata
