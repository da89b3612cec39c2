"""Pack the built site, pages and decks, into one file that opens from disk once unpacked: `make site`."""

import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NEEDED = ("index.html", "slides/index.html", "notebooks/00_workshop.html")
BESIDE = ("LICENSE", "LICENSE-TEXT", "CITATION.cff")


def pack(site, target):
    """Write the files of a built site into the zip file `target`, in one folder that names the version.

    Returns
    -------
    str
        The folder inside. SystemExit where the site lacks its first page or its decks.
    """
    site = Path(site)
    missing = [name for name in NEEDED if not (site / name).is_file()]
    if missing:
        sys.exit(f"The site in {site} is not whole, it lacks {', '.join(missing)}: run make book.")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    folder = f"serving-a-mixture-of-experts-{version}"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(site.rglob("*")):
            if path.is_file():
                file.write(path, f"{folder}/{path.relative_to(site).as_posix()}")
        for name in BESIDE:
            file.write(ROOT / name, f"{folder}/{name}")
    return folder


if __name__ == "__main__":
    place = ROOT / "_build" / "site.zip"
    inside = pack(ROOT / "_build" / "html", place)
    print(f"{place}, {place.stat().st_size / 1e6:.1f} MB: unpack it and open {inside}/index.html")
