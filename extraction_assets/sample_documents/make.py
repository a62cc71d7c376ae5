"""Write the sample documents: `python -m extraction_assets.sample_documents.make [--output DIR]`.

The output is the same to the byte on every run. It needs ReportLab, python-docx and openpyxl (the `dev` group); those
who only extract the committed documents need none of them.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from extraction_assets.sample_documents.catalogue import documents
from extraction_assets.sample_documents.writers import WRITERS


def rendered() -> Iterator[tuple[Path, bytes]]:
    """Yield every sample document as its path below the output folder (`<collection>/<document key>`) and bytes."""
    for collection, by_key in documents().items():
        for key, document in by_key.items():
            path = Path(collection, key)
            yield path, WRITERS[path.suffix.removeprefix(".")](document)


@click.command(help="Write the sample documents.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), default=Path(__file__).parent)
def main(output: Path) -> None:
    """Write all documents below `output`, replacing those that are there."""
    files = list(rendered())
    for path, content in files:
        target = output / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    click.echo(f"{len(files)} documents written below {output}")


if __name__ == "__main__":
    main()
