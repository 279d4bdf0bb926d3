"""The package check: whether the files of installed Debian packages are as they were, and under which licences."""
