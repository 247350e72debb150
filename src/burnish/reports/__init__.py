"""Reports, comparisons and progress views: they read events and ledgers, and decide nothing."""
