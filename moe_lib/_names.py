"""Collections that forgive how a name is written, and say which names are near where it is not known."""

import difflib
import re


class UnknownName(KeyError, ValueError):
    """A name that is in no collection; prints as its sentence, without the quotes of a KeyError."""

    def __str__(self):
        return self.args[0]


class Names(dict):
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
    >>> fruits["apples"]
    Traceback (most recent call last):
    moe_lib._names.UnknownName: 'apples' is not a known fruit; did you mean apple?
    """

    def __init__(self, what, records, aliases=()):
        super().__init__(records)
        self._what, self._slugs = what, {_plain(record.name): slug for slug, record in records.items()}
        self._slugs |= {_plain(alias): slug for alias, slug in dict(aliases).items()} | {_plain(of): of for of in self}

    def __missing__(self, name):
        slug = self._slugs.get(_plain(name)) if isinstance(name, str) else None
        if slug is None:
            near = self.near(str(name))
            guess = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(self)}"
            raise UnknownName(f"{name!r:.90} is not a known {self._what}; {guess}")
        return self[slug]

    def __contains__(self, name):
        return super().__contains__(name) or (isinstance(name, str) and _plain(name) in self._slugs)

    def near(self, name):
        """At most three slugs whose names are nearly this one, the nearest first."""
        close = difflib.get_close_matches(_plain(name), self._slugs, n=3, cutoff=0.5)
        return list(dict.fromkeys(self._slugs[match] for match in close))

    def get(self, name, default=None):
        return self[name] if name in self else default


def _plain(name):
    return re.sub(r"[^a-z0-9]", "", name.lower())
