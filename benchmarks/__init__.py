"""Programs that measure. Most print a table and write JSON; every figure in docs/ comes from one."""
