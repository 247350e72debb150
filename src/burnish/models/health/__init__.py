"""What `burnish doctor` finds out about this machine."""

from burnish.models.health.checkup import examine, is_healthy

__all__ = ["examine", "is_healthy"]
