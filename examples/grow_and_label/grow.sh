# New cases from the failures of the run `measured` and from a document; flags are added at the end.
here=$(dirname "$0")
python "$here/offline.py" burnish data grow "$here/train.jsonl" "$here/holdout.jsonl" \
  --run measured --documents "$here/rules.md" --kinds paraphrase,edge \
  --model openai:writer --base-url '${EXAMPLE_BASE_URL}' --api-key-env EXAMPLE_API_KEY "$@"
