"""The schedule inside MindSpore itself: a pass of MindSpore's compiler puts cache operators into the graph it runs."""
