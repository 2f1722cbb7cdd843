"""Short profile of an evaluated source: its losses of time, for niches of the archive and for prompts."""

from __future__ import annotations

from dataclasses import dataclass

_LEAST_CHANGE = 0.02
_MOST_CHANGES = 4


@dataclass(frozen=True)
class ProfileSummary:
    """Profile of a source.

    Args:
        bottleneck: Class of the largest loss.
        losses: Cause and share of the time lost to it, from 0 to 1, largest first.
        instructions: Class and executed instructions per wavefront.
    """

    bottleneck: str = ""
    losses: tuple[tuple[str, float], ...] = ()
    instructions: tuple[tuple[str, float], ...] = ()

    def changes_from(self, other: ProfileSummary) -> tuple[str, ...]:
        """Return the largest differences from the parent's profile, as short phrases, losses first."""
        before, after = dict(other.losses), dict(self.losses)
        moved = sorted(
            ((after.get(name, 0.0) - before.get(name, 0.0), name) for name in before.keys() | after.keys()),
            key=lambda pair: (-abs(pair[0]), pair[1]),
        )
        lost = [
            f"{name.replace('_', ' ')} {before.get(name, 0.0):.0%} to {after.get(name, 0.0):.0%} of the time"
            for change, name in moved
            if abs(change) >= _LEAST_CHANGE
        ]
        old, new = dict(other.instructions), dict(self.instructions)
        counted = [
            f"{name} {old.get(name, 0.0):,.0f} to {new.get(name, 0.0):,.0f} per wave"
            for name in sorted(old.keys() | new.keys(), key=lambda name: (-abs(new.get(name, 0.0) - old.get(name, 0.0)), name))
            if abs(new.get(name, 0.0) - old.get(name, 0.0)) >= max(1.0, _LEAST_CHANGE * old.get(name, 0.0))
        ]
        return (*lost[:_MOST_CHANGES], *counted[:_MOST_CHANGES])
