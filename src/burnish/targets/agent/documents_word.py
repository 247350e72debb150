"""Word files as text: paragraphs and tables in the order of the document."""

from burnish.targets.agent.documents_bounds import allowed_text
from burnish.targets.agent.documents_package import Package
from burnish.targets.agent.documents_paragraphs import Paragraphs


def word_text(content: bytes) -> str:
    """The text as it stands, what a reviewer struck out left out.

    Headers, footers, footnotes and comments are parts of their own and not read.
    """
    package = Package(content)
    found = Paragraphs(allowance=allowed_text())
    for mark in package.marks(package.main("document")):
        found.take(mark)
    return "\n".join(found.lines)
