"""Tests that others run on what they build with narrows. docs/own_engine.md describes them.

adapter           what a test needs of an engine; needs narrows alone
engine_contract   the tests of the contract for engines; needs pytest
"""
