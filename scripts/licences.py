#!/usr/bin/env python3
"""Prints the licences of everything that is compiled into the program: each crate by its own files, and
the C++ and C that come with some of them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

NAMES = re.compile(r"^(licen[sc]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
# Crates that ship no file name their licence in Cargo.toml; the text of the common ones is that of ours.
OURS = {"MIT": "LICENSE-MIT", "Apache-2.0": "LICENSE-APACHE"}
DEDICATION = "Dedicated to the public domain: https://creativecommons.org/publicdomain/zero/1.0/legalcode"
RULE = "=" * 100


def metadata():
    cargo = os.environ.get("CARGO", "cargo")
    features = os.environ.get("FEATURES", "export").split()
    command = [*cargo.split(), "metadata", "--format-version=1", "--locked", "--manifest-path=apus/Cargo.toml"]
    command += [f"--features={feature}" for feature in features]
    host = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.search(r"^host: (.*)$", host, re.MULTILINE).group(1)
    command.append(f"--filter-platform={os.environ.get('RELEASE_TARGET', host)}")
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def linked(data):
    """The packages that the program is made of, without those of tests and build scripts."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    seen, waiting = set(), [data["resolve"]["root"]]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for dependency in nodes[name]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return [package for package in data["packages"] if package["id"] in seen and package["source"]]


def texts(package):
    """The licence files of a package, also of sources of others inside it."""
    root = Path(package["manifest_path"]).parent
    found = []
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if name not in {"target", "test", "tests", "doc", "docs", "contrib"})
        depth = len(Path(folder).relative_to(root).parts)
        if depth > 3:
            below.clear()
        for name in sorted(files):
            path = Path(folder, name)
            if NAMES.match(name) and path.suffix.lower() in {"", ".md", ".txt", ".mit", ".apache", ".cc0"}:
                found.append((path.relative_to(root), path.read_text(errors="replace").strip()))
    return found


def by_name(package):
    """The text of a licence that the package only names."""
    for name, path in OURS.items():
        if name in package["license"]:
            return Path(name), Path(path).read_text().strip()
    if package["license"] != "CC0-1.0":
        sys.exit(f"{package['name']}: no licence file, and {package['license']} is not known here")
    return Path("CC0-1.0"), DEDICATION


def main():
    packages = sorted(linked(metadata()), key=lambda package: (package["name"], package["version"]))
    print("The program apus is licensed under MIT OR Apache-2.0. It contains the following works, and the")
    print("standard library of Rust (MIT OR Apache-2.0, https://www.rust-lang.org). With Debian's headers of")
    print("Boost it contains parts of these (Boost Software License 1.0).\n")
    for package in packages:
        print(f"{package['name']} {package['version']}: {package['license']}")
    # One text often serves many crates.
    shared = {}
    for package in packages:
        files = texts(package)
        if not files:
            files = [by_name(package)]
        for path, text in files:
            shared.setdefault(text, []).append(f"{package['name']} {package['version']}, {path}")
    for text, names in sorted(shared.items(), key=lambda entry: entry[1]):
        print(f"\n{RULE}\n" + "\n".join(names) + f"\n{RULE}\n\n{text}")


main()
