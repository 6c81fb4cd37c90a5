#!/usr/bin/env python3
"""Runs a command on a terminal of its own and draws what was seen: an animated SVG, and the last screen as text.

    record_demo.py docs/images/demo.svg -- scripts/demo.sh
        also writes docs/images/demo.txt; the time line is the real one, compressed
    record_demo.py --columns 80 --rows 12 --title '$ make demo' OUT.svg -- COMMAND ...

Knows what our program writes: line ends, carriage return, erase to the end of the line, and colours.
"""
import argparse
import codecs
import fcntl
import html
import os
import pathlib
import pty
import re
import struct
import sys
import termios
import time

FRAMES = 16
PLAY_S = 12  # the whole run, in seconds of the picture
COLOURS = {"30": "#3b4252", "31": "#ff6b6b", "32": "#8fd460", "33": "#e5c07b", "34": "#61afef", "35": "#c678dd", "36": "#56b6c2"}
TOKEN = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
CHAR_WIDTH, LINE_HEIGHT, MARGIN = 8.4, 19, 14


class Screen:
    """Lines of (character, style); a style is the text of SVG attributes."""

    def __init__(self, columns):
        self.columns, self.lines, self.column, self.style = columns, [[]], 0, ""

    def feed(self, text):
        for code, command, control, plain in TOKEN.findall(text):
            line = self.lines[-1]
            if control == "\n":
                self.lines.append([])
                self.column = 0
            elif control == "\r":
                self.column = 0
            elif command == "K":
                del line[self.column:]
            elif command == "m":
                self.set_style(code)
            for character in plain:
                if self.column == self.columns:  # the terminal wraps
                    self.lines.append([])
                    self.column = 0
                line = self.lines[-1]
                line.extend([(" ", "")] * (self.column - len(line)))
                line[self.column:self.column + 1] = [(character, self.style)]
                self.column += 1

    def set_style(self, code):
        parts = code.split(";")
        if "0" in parts or not code:
            self.style = ""
        for part in parts:
            if part in COLOURS:
                self.style += f' fill="{COLOURS[part]}"'
            elif part == "1":
                self.style += ' font-weight="bold"'
            elif part == "2":
                self.style += ' opacity="0.5"'

    def shown(self, rows):
        lines = self.lines if self.lines[-1] else self.lines[:-1]
        return [list(line) for line in lines[-rows:]]


def record(command, columns, rows):
    """[(seconds, lines)] after each piece of output, and the exit status."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        time.sleep(0.1)  # until the parent has set the size
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    screen, seen, start = Screen(columns), [], time.monotonic()
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the last process on the terminal has ended
            break
        if not data:
            break
        screen.feed(decoder.decode(data))
        seen.append((time.monotonic() - start, screen.shown(rows)))
    return seen, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def pick(seen):
    """FRAMES screens at equal distances in time, and the last one."""
    end = seen[-1][0]
    frames = []
    for i in range(FRAMES):
        wanted = end * i / FRAMES
        frames.append(([lines for seconds, lines in seen if seconds <= wanted] or [[]])[-1])
    return [*frames, seen[-1][1]]


def draw_line(line, y):
    spans, x = [], 0
    while x < len(line):
        end = x
        while end < len(line) and line[end][1] == line[x][1]:
            end += 1
        text = html.escape("".join(character for character, _ in line[x:end]))
        spans.append(f'<tspan x="{MARGIN + x * CHAR_WIDTH:.1f}"{line[x][1]}>{text}</tspan>')
        x = end
    return f'<text y="{y}" xml:space="preserve">{"".join(spans)}</text>' if spans else ""


def draw(frames, columns, title):
    rows = max(map(len, frames))
    width, height = columns * CHAR_WIDTH + 2 * MARGIN, (rows + 2) * LINE_HEIGHT + 2 * MARGIN
    share = 100 * 0.8 / FRAMES  # of the cycle; the last frame stays for a fifth of it
    cycle = PLAY_S / 0.8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" font-size="14" '
           'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans Mono\', monospace">',
           f"<style>.f{{opacity:0;animation:f {cycle}s steps(1) infinite}}.last{{animation:last {cycle}s steps(1) infinite}}"
           f"@keyframes f{{0%{{opacity:1}}{share:.2f}%{{opacity:0}}}}@keyframes last{{0%{{opacity:0}}80%{{opacity:1}}}}</style>",
           f'<rect width="100%" height="100%" rx="8" fill="#1e2127"/><g fill="#d7dae0">',
           draw_line([(character, ' font-weight="bold"') for character in title], MARGIN + LINE_HEIGHT)]
    for i, lines in enumerate(frames):
        last = i == len(frames) - 1
        delay = "" if last else f' style="animation-delay:{cycle * share / 100 * i:.2f}s"'
        out.append(f'<g class="{"last" if last else "f"}"{delay}>')
        out += [draw_line(line, MARGIN + (row + 2) * LINE_HEIGHT) for row, line in enumerate(lines)]
        out.append("</g>")
    return "\n".join([*out, "</g></svg>"]) + "\n"


def plain(lines):
    return "".join("".join(character for character, _ in line).rstrip() + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--rows", type=int, default=24)
    parser.add_argument("--title", default="$ make demo    (set-up and build not shown)")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    seen, status = record(options.command, options.columns, options.rows)
    if status != 0:
        sys.exit(f"{' '.join(options.command)} ended with {status}:\n{plain(seen[-1][1]) if seen else ''}")
    frames = pick(seen)
    options.output.write_text(draw(frames, options.columns, options.title))
    middle = frames[FRAMES // 2]
    text = f"after {seen[-1][0] / 2:.0f} s:\n\n{plain(middle)}\nafter {seen[-1][0]:.0f} s, at the end:\n\n{plain(frames[-1])}"
    options.output.with_suffix(".txt").write_text(text)


main()
