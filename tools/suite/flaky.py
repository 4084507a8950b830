"""Reads tests/flaky.toml: tests that are known to fail now and then."""

import tomllib


def read(path):
    """Returns a cause for each test that is listed.

    Raises ValueError if an entry lacks its date, its cause or what has been tried.
    """
    with open(path, "rb") as file:
        entries = tomllib.load(file).get("test", [])
    for entry in entries:
        missing = {"name", "since", "cause", "tried"} - entry.keys()
        if missing:
            raise ValueError(f"{path}: {entry.get('name', 'an entry')} lacks {', '.join(sorted(missing))}")
    return {entry["name"]: entry["cause"] for entry in entries}
