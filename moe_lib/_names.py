"""Collections that forgive how a name is written, and say which names are near where it is not known."""

import difflib
import re
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar


class Named(Protocol):
    """A record with a name of its own."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class UnknownName(KeyError, ValueError):
    """A name that is in no collection; prints as its sentence, without the quotes of a KeyError."""

    def __str__(self):
        return self.args[0]


class Names(dict[str, T]):
    """Slug to record; found by the slug or the record's own name in any case, with spaces, dots or underscores.

    Parameters
    ----------
    what : str
        What the records are, for the message: "model".
    records : dict of str to record
        Each record has a `name`.
    aliases : dict of str to str, optional
        Further names to slugs.

    >>> class Fruit:
    ...     name = "Granny Smith"
    >>> fruits = Names("fruit", {"apple": Fruit()})
    >>> fruits["Apple"] is fruits["granny_smith"] is fruits["apple"]
    True
    >>> fruits.find(fruits["apple"], Fruit) is fruits.find("APPLE", Fruit)
    True
    >>> fruits["apples"]
    Traceback (most recent call last):
    moe_lib._names.UnknownName: 'apples' is not a known fruit; did you mean apple?
    """

    def __init__(self, what: str, records: Mapping[str, T], aliases: Mapping[str, str] | None = None):
        super().__init__(records)
        self._what, self._aliases = what, dict(aliases or {})
        slugs = self._slugs()
        for slug, record in self.items():
            if slugs[_plain(record.name)] != slug:
                raise ValueError(f"{record.name!r} would be the name of two of the {what}s")

    def _slugs(self):
        """{name without case and signs: slug}, of records added later too."""
        named = {_plain(record.name): slug for slug, record in self.items()}
        aliases = {_plain(alias): slug for alias, slug in self._aliases.items()}
        return named | aliases | {_plain(slug): slug for slug in self}

    def slug(self, name: Any) -> str:
        """The slug that a name stands for; KeyError and ValueError in one if there is none."""
        if dict.__contains__(self, name):
            return name
        found = self._slugs().get(_plain(name)) if isinstance(name, str) else None
        if found is None:
            near = self.near(str(name))
            guess = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(self)}"
            raise UnknownName(f"{name!r:.90} is not a known {self._what}; {guess}")
        return found

    def find(self, given: Any, kind: type[T]) -> T:
        """A record as it is, or the one that is called so; ValueError for anything else."""
        if isinstance(given, kind):
            return given
        if isinstance(given, str):
            return self[given]
        raise ValueError(f"{self._what} must be a {kind.__name__} or the name of one, got {given!r:.90}")

    def __missing__(self, name: Any) -> T:
        return self[self.slug(name)]

    def __contains__(self, name):
        return super().__contains__(name) or (isinstance(name, str) and _plain(name) in self._slugs())

    def near(self, name: str) -> list[str]:
        """At most three slugs whose names are nearly this one, the nearest first."""
        slugs = self._slugs()
        close = difflib.get_close_matches(_plain(name), slugs, n=3, cutoff=0.5)
        return list(dict.fromkeys(slugs[match] for match in close))

    def get(self, name, default=None):
        return self[name] if name in self else default


def _plain(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())
