"""The part that is compatible with Reducto: uploads, parse jobs on the sandbox's clock, results, a list of jobs."""
