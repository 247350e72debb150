"""The client of the store: a pair of async functions is all that burnish asks for."""

import asyncio
import json
import urllib.request
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RemotePrompt:
    """One prompt in the store."""

    address: str
    key: str
    """Such as `sandbox/reminder`."""
    token: str

    async def read(self) -> str:
        """What it says now."""
        return json.loads(await self._send("GET"))["value"]

    async def write(self, text: str) -> None:
        """Replace it. Retries and logins belong here, if your store needs them."""
        await self._send("PUT", json.dumps({"value": text}).encode())

    async def _send(self, method: str, body: bytes | None = None) -> bytes:
        return await asyncio.to_thread(self._sent, method, body)

    def _sent(self, method: str, body: bytes | None) -> bytes:
        url, headers = f"{self.address}/{self.key}", {"X-Token": self.token}
        request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return response.read()
