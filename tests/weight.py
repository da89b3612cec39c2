"""What a page of the built site weighs: the files a browser asks for, compressed as a web server would."""

import gzip
from pathlib import Path
from urllib.parse import unquote, urlparse

from browsing import read

PACKED = {".woff", ".woff2", ".png"}  # compressed already
LANDING_BYTES, PAGE_BYTES = 1_000_000, 150_000  # the bars: the first page with all it loads, what each further one adds


def compressed_bytes(path):
    """Size of a file as it is sent: gzip, or as it is where it is compressed already."""
    data = Path(path).read_bytes()
    return len(data) if Path(path).suffix in PACKED else len(gzip.compress(data, 6, mtime=0))


def loaded(page, path):
    """The files that a browser asks for when a page is read from top to bottom, itself included."""
    asked = set()
    page.on("request", lambda request: asked.add(unquote(urlparse(request.url).path)))
    read(page, path)
    return {Path(name) for name in asked if name.startswith("/") and Path(name).is_file()}


def weights(files):
    """{file: compressed bytes}, heaviest first."""
    return dict(sorted(((file, compressed_bytes(file)) for file in files), key=lambda item: -item[1]))
