"""Reads a page of a report: sections with their words, tables and pictures, and the data."""

import json
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "hr", "input", "wbr"}


class Section:
    """What one section holds."""

    def __init__(self):
        self.title, self.text, self.headings = "", "", []
        self.tables, self.pictures, self.facts, self.states = [], [], [], []


class Page(HTMLParser):
    """The sections of a page by their titles; tags must nest."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.open, self.sections, self.ids, self.references = [], {}, [], []
        self.title, self.text, self.data = "", "", {}
        self.now = Section()
        self.feed(self.source)
        self.close()
        assert self.open == []

    def __getitem__(self, title):
        return self.sections[title]

    @property
    def titles(self):
        """Titles of the sections, from top to bottom."""
        return list(self.sections)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "section":
            self.now = Section()
            self.ids.append(values["id"])
        elif tag == "table":
            self.now.tables.append([])
        elif tag == "tr":
            self.now.tables[-1].append([])
        elif tag in ("td", "th"):
            self.now.tables[-1][-1].append("")
        elif tag == "svg":
            self.now.pictures.append(values["aria-label"])
        elif tag == "dt":
            self.now.facts.append(["", ""])
        elif tag == "h3":
            self.now.headings.append("")
        elif "verdict" in values.get("class", ""):
            self.now.states.append(values["class"].split()[1])
        self.references += [values[name] for name in ("src", "href") if name in values]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        last = self.open[-1] if self.open else ""
        if last == "h1":
            self.title += data
        elif last == "h2":
            self.now.title += data
            self.sections[self.now.title] = self.now
        elif last == "h3":
            self.now.headings[-1] += data
        elif last in ("td", "th"):
            self.now.tables[-1][-1][-1] += data.strip()
        elif last in ("dt", "dd"):
            self.now.facts[-1][last == "dd"] += data
        elif last == "script" and data.startswith("{"):
            self.data = json.loads(data)
        if last not in ("style", "script"):
            self.text += data
            self.now.text += data

    def rows(self, title):
        """Return the rows of all tables of a section but their headings, in words."""
        return [row for table in self[title].tables for row in table[1:]]


def number(cell):
    """Return the number in a cell; a share as a part of one."""
    text = cell.replace("\N{MINUS SIGN}", "-")
    return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
