"""langextract: ``ADDRESS REQUEST DOCUMENTS CONCURRENCY``, the arguments of :mod:`benchmarks.floor`.

It has no provider for Claude; it asks the same server by OpenAI's protocol, on threads.
"""

import json
import sys
from pathlib import Path

import langextract as lx
from langextract.providers.openai import OpenAILanguageModel

PROMPT = "Extract the server's model name."


def main(address: str, documents: list[str], concurrency: int) -> None:
    """Ask about every document, so many at a time."""
    example = lx.data.ExampleData(text="Model: PowerEdge R1", extractions=[lx.data.Extraction("model", "PowerEdge R1")])
    model = OpenAILanguageModel(model_id="gpt-4o-mini", api_key="k", base_url=f"{address}/v1", max_workers=concurrency)
    found = lx.extract(
        text_or_documents=[lx.data.Document(text=text, document_id=str(i)) for i, text in enumerate(documents)],
        prompt_description=PROMPT,
        examples=[example],
        model=model,
        batch_length=concurrency,
        max_workers=concurrency,
        show_progress=False,
    )
    print(json.dumps({"done": sum(bool(one.extractions) for one in found)}))


if __name__ == "__main__":
    url, _, documents_file, in_flight = sys.argv[1:]
    main(url, json.loads(Path(documents_file).read_text()), int(in_flight))
