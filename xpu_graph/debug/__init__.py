"""What tells people what happened: report, dump, fuel, interceptor, progress. Hooks, not passes."""
