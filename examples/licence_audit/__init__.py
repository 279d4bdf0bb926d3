"""The licence audit: which licences an environment runs under, found out by agents."""
