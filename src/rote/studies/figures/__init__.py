"""The studies: a file in this folder is one."""
