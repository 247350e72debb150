"""Pages about runs for the browser: report.html, and what `burnish view` serves.

They are rendered from a run's record and the sections of its report, and decide nothing.
"""
