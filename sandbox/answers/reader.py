"""Read Markdown or plain text into a document, line by line.

The reader does not fill anything. All it asks about the schema is whether words name something in it, where a line can
be cut in more than one way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sandbox.answers import lines
from sandbox.answers.document import Document, Pair, Table
from sandbox.answers.grid import Cells, blocks, filled_cells, is_total
from sandbox.answers.labels import Words, words

WEAK = -15  # a pair that may be no pair at all: a line that ends in a number, a paragraph under a heading
INFERRED = -5  # a pair without a colon
INNERMOST = 7  # the level of a heading that is only bold or in capitals
PAIR_WIDTH = 2  # columns of a table that lists labels and values
LAYOUT_WIDTH = 3  # fewest columns that make a line without bars a table row


def read_document(text: str, known: lines.Known) -> Document:
    """Read a document."""
    reader = _Reader(known)
    for line in text.splitlines():
        reader.line(line.strip())
    reader.end_section()
    return Document(reader.title, tuple(reader.pairs), tuple(reader.tables), tuple(reader.sections), text)


@dataclass(slots=True)
class _Reader:
    """Goes through the lines once; `rows` is a table that may go on, `label` one that still waits for its value."""

    known: lines.Known
    title: str = ""
    pairs: list[Pair] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    sections: list[tuple[Words, ...]] = field(default_factory=lambda: [()])
    levels: list[tuple[int, Words]] = field(default_factory=list)
    rows: list[Cells] = field(default_factory=list)
    label: str | None = None
    collected: list[str] = field(default_factory=list)
    bullets: list[str] = field(default_factory=list)
    paragraph: list[str] = field(default_factory=list)

    def line(self, line: str) -> None:
        if row := lines.table_cells(line):
            self._end_label()
            self.rows.append(row)
            return
        cells = lines.layout_cells(line)
        if self._layout_row(line, cells):
            return
        self._end_table()
        if not line:
            self._end_label()
        elif not (lines.SKIPPED.match(line) or self._heading(line)):
            self._content(line, cells)

    def end_section(self) -> None:
        """Give the section's bullets, or else its text, to its heading as a value."""
        self._end_table()
        self._end_label()
        if self.levels:
            heading = self.levels[-1][1]
            if self.bullets:
                self._pair(heading, "\n".join(self.bullets))
            elif self.paragraph:
                self._pair(heading, "\n".join(self.paragraph), WEAK)
        self.bullets, self.paragraph = [], []

    def _pair(self, label: str | Words, value: str, weight: int = 0) -> None:
        name = words(label) if isinstance(label, str) else label
        if name and value:
            self.pairs.append(Pair(name, value, len(self.sections) - 1, weight))

    def _heading(self, line: str) -> bool:
        """Open a section for a Markdown heading, a line in bold, or a short line in capitals."""
        if match := lines.HEADING.match(line):
            level, text = len(match[1]), lines.clean(match[2])
        elif match := lines.BOLD_LINE.match(line):
            level, text = INNERMOST, lines.clean(match[1])
        elif line.isupper() and line.replace(" ", "").isalpha() and len(line.split()) <= lines.MAX_CAPITALS:
            level, text = INNERMOST, lines.clean(line)
        else:
            return False
        self._open_section(level, text)
        return True

    def _open_section(self, level: int, text: str) -> None:
        """Open a section; the first heading is the title of the document unless it states a value itself."""
        self.end_section()
        stated = list(lines.pairs_in(text, self.known))
        if not self.title and not stated:
            self.title = text
        else:
            name = words(stated[0][0] if stated else text)
            self.levels = [(above, heading) for above, heading in self.levels if above < level] + [(level, name)]
            self.sections.append(tuple(heading for _, heading in self.levels))
        for label, value in stated:
            self._pair(label, value)
        self._numbered(text)

    def _content(self, line: str, cells: Sequence[str]) -> None:
        bullet = lines.BULLET.match(line)
        if bullet:
            line = bullet[1]
            cells = lines.layout_cells(line)
        if self._stated(cells):
            return
        text = lines.clean(line)
        if self.label is not None:
            self.collected.append(text)
        elif bullet:
            self.bullets.append(text)
        else:
            self._numbered(text)
            self.paragraph.append(text)

    def _stated(self, cells: Sequence[str]) -> bool:
        """Read `Label: value` in every cell, `Label:` followed by its value, and two cells as label and value."""
        found = False
        waiting: str | None = None
        for cell in cells:
            stated = list(lines.pairs_in(cell, self.known))
            if stated or lines.is_open_label(cell) or waiting is not None:
                found = True
                self._end_label()
            for label, value in stated:
                self._pair(label, value)
            if waiting is not None and not stated:
                self._pair(waiting, cell)
            waiting = cell if lines.is_open_label(cell) and waiting is None else None
        self.label = waiting if waiting is not None else self.label
        if not found and len(cells) == PAIR_WIDTH and len(cells[0]) <= lines.MAX_LABEL:
            self._end_label()
            self._pair(cells[0], cells[1], INFERRED)
            return True
        return found

    def _numbered(self, text: str) -> None:
        """Read `Invoice No 2026-001` as a pair, weakly."""
        if match := lines.NUMBERED.match(text):
            self._pair(match[1], match[2].lstrip("#"), WEAK)

    def _layout_row(self, line: str, cells: Sequence[str]) -> bool:
        """Take lines of three or more columns, set apart by spaces, as rows of one table."""
        labelled = any(lines.is_open_label(cell) or any(lines.pairs_in(cell, self.known)) for cell in cells)
        if len(cells) < LAYOUT_WIDTH or line.startswith("#") or labelled:
            return False
        if self.rows and len(self.rows[0]) != len(cells):
            self._end_table()
        self._end_label()
        self.rows.append(tuple(cells))
        return True

    def _end_label(self) -> None:
        if self.label is not None:
            self._pair(self.label, "\n".join(self.collected))
        self.label, self.collected = None, []

    def _end_table(self) -> None:
        rows, self.rows = self.rows, []
        for block in blocks(rows):
            self._table(block)

    def _table(self, rows: list[Cells]) -> None:
        """Read a table; what stands above its header, as in a sheet, is a heading or a label and its value."""
        width = len(rows[0])
        if width == 1:
            self._open_section(INNERMOST, rows[0][0])
            self.bullets += [row[0] for row in rows[1:]]
            return
        top = next((number for number, row in enumerate(rows) if _is_header(row)), len(rows))
        for row in rows[:top]:
            if len(filled_cells(row)) == 1:
                self._open_section(INNERMOST, filled_cells(row)[0])
            self._row(row)
        if top < len(rows):
            body = tuple(rows[top + 1 :])
            self.tables.append(Table(tuple(words(cell) for cell in rows[top]), body, len(self.sections) - 1))
            for row in rows[top:]:
                self._row(row)
            if len(body) == 1 and width > PAIR_WIDTH:
                for label, value in zip(rows[top], body[0], strict=True):
                    self._pair(label, value)

    def _row(self, row: Cells) -> None:
        """Read a row of labels and values: two cells, a total, or label and value by turns."""
        filled = filled_cells(row)
        if len(filled) < PAIR_WIDTH:
            self._stated(filled)
        elif len(filled) == PAIR_WIDTH or is_total(row):
            self._pair(filled[0], filled[-1])
        elif any(":" in cell for cell in row):
            self._stated(filled)
        elif len(row) % 2 == 0 and all(map(self._is_known, row[::2])) and not any(map(self._is_known, row[1::2])):
            for label, value in zip(row[::2], row[1::2], strict=True):
                self._pair(label, value)

    def _is_known(self, cell: str) -> bool:
        return self.known(words(cell)) > 0


def _is_header(row: Cells) -> bool:
    return all(row) or len(filled_cells(row)) > PAIR_WIDTH
