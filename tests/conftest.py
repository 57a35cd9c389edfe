"""For the whole suite: random tests are judged by what they find, not by how long a busy machine takes for one example."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("narrows", deadline=None)
settings.load_profile("narrows")
