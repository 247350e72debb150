"""Metrics as files say them: the shapes of agent files, EvalSets and PromptIter."""
