"""Why a step is as long as it is: verdicts on transfers, stalls, decisions on storages, and what would change them.

Everything starts from `step_of`, which takes a schedule (planned times) or one step of a profile (measured or
predicted times); the functions behind it are plain and return frozen values.
"""
