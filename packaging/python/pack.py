"""Packs a wheel: python3 pack.py VERSION PLATFORM FOLDER FILE=PLACE...; prints its path. Files have one time: the same files make the same wheel.

Run by `cargo xtask wheel`.
"""

import base64
import hashlib
import os
import sys
import zipfile
from pathlib import Path

TIME = (2020, 1, 1, 0, 0, 0)
METADATA = """Metadata-Version: 2.1
Name: nanos
Version: {version}
Summary: Parallel programs that share the processors of a machine
License: MIT OR Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

"""
WHEEL = """Wheel-Version: 1.0
Generator: cargo xtask wheel
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""
ENTRY = "[console_scripts]\nnanos = nanos.__main__:main\n"


def main():
    version, platform, folder, *files = sys.argv[1:]
    here = Path(__file__).parent
    info = f"nanos-{version}.dist-info"
    parts = []
    for source in sorted((here / "nanos").glob("*.py")):
        parts.append((f"nanos/{source.name}", source.read_bytes().replace(b"@VERSION@", version.encode()), 0o644))
    for file in files:
        source, place = file.rsplit("=", 1)
        parts.append((place, Path(source).read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644))
    text = METADATA.format(version=version) + (here / "README.md").read_text()
    parts.append((f"{info}/METADATA", text.encode(), 0o644))
    parts.append((f"{info}/WHEEL", WHEEL.format(platform=platform).encode(), 0o644))
    parts.append((f"{info}/entry_points.txt", ENTRY.encode(), 0o644))
    record = []
    for place, content, _ in parts:
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{place},sha256={digest},{len(content)}\n")
    record.append(f"{info}/RECORD,,\n")
    parts.append((f"{info}/RECORD", "".join(record).encode(), 0o644))
    Path(folder).mkdir(parents=True, exist_ok=True)
    wheel = Path(folder) / f"nanos-{version}-py3-none-{platform}.whl"
    fresh = wheel.with_suffix(".new")
    with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, content, mode in parts:
            entry = zipfile.ZipInfo(place, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content)
    fresh.rename(wheel)
    print(wheel)


if __name__ == "__main__":
    main()
