"""Agents and memory pools of this machine, and selection of the GPU for a replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocm_perf_lab.replay.errors import ReplayError
from rocm_perf_lab.replay.hsa import library as hsa
from rocm_perf_lab.runtime.session import is_in_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocm_perf_lab.replay.capture import Capture
    from rocm_perf_lab.replay.hsa.library import HsaLibrary


@dataclass(frozen=True)
class AgentInfo:
    """HSA agent; `isas` are names like amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-."""

    handle: int
    is_gpu: bool
    name: str
    product: str
    uuid: str
    isas: tuple[str, ...]
    profile: int

    @property
    def is_emulated(self) -> bool:
        """Return whether the GPU is emulated: by the driver of `rocm-perf run`, or by its product name."""
        return is_in_session() or "emulated" in self.product


@dataclass(frozen=True)
class Pool:
    """Memory pool that allows allocations; `granule` is in bytes."""

    handle: int
    flags: int
    granule: int


def list_agents(library: HsaLibrary) -> tuple[AgentInfo, ...]:
    """Return the agents in the order of the runtime."""
    return tuple(_agent(library, handle) for handle in library.handles("hsa_iterate_agents"))


def _agent(library: HsaLibrary, handle: int) -> AgentInfo:
    info = "hsa_agent_get_info"
    isas = [library.text("hsa_isa_get_info_alt", isa, hsa.ISA_NAME) for isa in library.handles("hsa_agent_iterate_isas", handle)]
    return AgentInfo(
        handle=handle,
        is_gpu=library.word(info, handle, hsa.AGENT_DEVICE) == hsa.DEVICE_GPU,
        name=library.text(info, handle, hsa.AGENT_NAME),
        product=library.text(info, handle, hsa.AGENT_PRODUCT_NAME),
        uuid=library.text(info, handle, hsa.AGENT_UUID),
        isas=tuple(isas),
        profile=library.word(info, handle, hsa.AGENT_PROFILE) or 0,
    )


def choose_gpu(agents: Sequence[AgentInfo], capture: Capture, number: int | None) -> AgentInfo:
    """Return the GPU to replay on: by number, else the captured one by its UUID, else the first of its architecture.

    Raises:
        ReplayError: The machine has no GPU, no GPU with that number, or none of the captured architecture.
    """
    gpus = [agent for agent in agents if agent.is_gpu]
    architecture = capture.code_object.architecture
    if not gpus:
        raise ReplayError("this machine has no GPU", hint="Use --device emulator.")
    if number is not None:
        if number >= len(gpus):
            raise ReplayError(f"there is no GPU number {number}; this machine has {len(gpus)}", hint="Numbers start at 0.")
        gpus = [gpus[number]]
    fitting = [gpu for gpu in gpus if gpu.name == architecture]
    if not fitting:
        raise ReplayError(
            f"the capture is of {architecture}, but this machine has {', '.join(gpu.name for gpu in gpus)}",
            where=str(capture.directory),
            hint=f"Replay on a machine with {architecture}.",
        )
    captured = capture.dispatch.gpu.uuid
    return next((gpu for gpu in fitting if captured and gpu.uuid == captured), fitting[0])


def host_agent(agents: Sequence[AgentInfo]) -> AgentInfo:
    """Return the first CPU agent.

    Raises:
        ReplayError: There is no CPU agent.
    """
    for agent in agents:
        if not agent.is_gpu:
            return agent
    raise ReplayError("the HSA runtime lists no CPU")


def choose_pool_like(library: HsaLibrary, agent: AgentInfo, flags: int) -> Pool:
    """Return a global memory pool of an agent with the granularity in `flags`, else the coarse-grained one.

    Raises:
        ReplayError: The agent has neither.
    """
    for flag in (hsa.POOL_FINE, hsa.POOL_EXTENDED_FINE):
        if flags & flag:
            try:
                return choose_pool(library, agent, flag)
            except ReplayError:
                break
    return choose_pool(library, agent, hsa.POOL_COARSE)


def choose_pool(library: HsaLibrary, agent: AgentInfo, flag: int) -> Pool:
    """Return a global memory pool of an agent with a flag (kernarg, fine or coarse grained).

    Raises:
        ReplayError: The agent has no such pool.
    """
    info = "hsa_amd_memory_pool_get_info"
    for handle in library.handles("hsa_amd_agent_iterate_memory_pools", agent.handle):
        flags = library.word(info, handle, hsa.POOL_FLAGS) or 0
        is_global = library.word(info, handle, hsa.POOL_SEGMENT) == hsa.SEGMENT_GLOBAL
        if is_global and flags & flag and library.word(info, handle, hsa.POOL_ALLOCATION_ALLOWED, bits=8):
            return Pool(handle, flags, library.word(info, handle, hsa.POOL_GRANULE, bits=64) or 4096)
    raise ReplayError(f"agent {agent.name} has no memory pool for a replay", where=f"pool flag {flag}")
