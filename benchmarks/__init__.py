"""Programs that measure: each prints a table and writes JSON, and every figure in docs/ comes from one."""
