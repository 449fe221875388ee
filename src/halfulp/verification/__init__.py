"""Verification: what an auditor who trusts nobody can check in a folder of results, without training anything."""
