"""Files that go with a case: pictures as pictures, everything else as text."""

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path

from burnish.core.cases import Attachment
from burnish.core.messages import Image
from burnish.system import read_bytes
from burnish.targets.agent.documents import text_of


async def read_attachments(
    attachments: Sequence[Attachment], folder: Path
) -> tuple[list[str], list[Image]]:
    """The texts, each under the name of its file, and the pictures."""
    texts: list[str] = []
    images: list[Image] = []
    for attachment in attachments:
        path = folder / attachment.path
        if attachment.kind == "image":
            kind = mimetypes.guess_type(path.name)[0] or "image/png"
            data = base64.b64encode(read_bytes(path)).decode()
            images.append(Image(media_type=kind, base64=data))
        else:
            texts.append(_headed(attachment, text_of(attachment, path)))
    return texts, images


def _headed(attachment: Attachment, text: str) -> str:
    about = f" ({attachment.description})" if attachment.description else ""
    return f'<file name="{Path(attachment.path).name}"{about}>\n{text}\n</file>'
