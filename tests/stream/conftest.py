"""Lets the tests in the folders below import `transcripts`: pytest puts this file's folder on the path."""
