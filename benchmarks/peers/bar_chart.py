"""A bar chart as SVG, without a library: one row of bars per group, in the colours of the program's own charts."""
from html import escape

STYLE = """text{font:11px system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#3c4450;stroke:#fff;stroke-width:3;paint-order:stroke}
.head{font-size:16px;font-weight:600;fill:#14181f}.group{font-weight:600}.page{fill:#fff}.grid{stroke:#e6e9ee}
.limit{stroke:#c62828;stroke-dasharray:4 3}.end{text-anchor:end}.mid{text-anchor:middle}
.c0{fill:#98a1ae}.c1{fill:#1f6fd1}.c2{fill:#d3640a}.c3{fill:#13855a}.c4{fill:#8049c0}
@media (prefers-color-scheme:dark){text{fill:#b9c1cc;stroke:#14181f}.head{fill:#eef1f5}.page{fill:#14181f}.grid{stroke:#262d37}
.limit{stroke:#ff7b72}.c0{fill:#657080}.c1{fill:#6aa8f7}.c2{fill:#f39a4f}.c3{fill:#4cc79a}.c4{fill:#b990ee}}"""
WIDTH, LEFT, RIGHT, TOP = 760, 130, 60, 72
BAR, GAP = 15, 14  # of a bar, between groups


def bar_chart(title, series, groups, limit=None):
    """`groups` is {name: [(value, what is written beside its bar)]}, a pair for each of `series`; `limit` draws a line."""
    longest = max([value for pairs in groups.values() for value, _ in pairs] + [limit or 0])
    scale = (WIDTH - LEFT - RIGHT - 60) / longest
    height = TOP + sum(BAR * len(pairs) + GAP for pairs in groups.values()) + 26
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">',
             f"<title>{escape(title)}</title>", f"<style>\n{STYLE}\n</style>", '<rect class="page" width="100%" height="100%"/>',
             f'<text class="head" x="16" y="28">{escape(title)}</text>']
    x = 16
    for index, name in enumerate(series):
        lines += [f'<rect class="c{index}" x="{x}" y="42" width="11" height="11"/>', f'<text x="{x + 16}" y="52">{escape(name)}</text>']
        x += 40 + 7 * len(name)
    for tick in range(int(longest) + 1):
        at = LEFT + tick * scale
        lines += [f'<path class="grid" d="M{at:.1f} {TOP - 8}V{height - 22}"/>', f'<text class="mid" x="{at:.1f}" y="{height - 8}">{tick}</text>']
    if limit:
        at = LEFT + limit * scale
        lines += [f'<path class="limit" d="M{at:.1f} {TOP - 8}V{height - 22}"/>', f'<text x="{at + 3:.1f}" y="{height - 8}">{limit}</text>']
    y = TOP
    for name, pairs in groups.items():
        lines.append(f'<text class="group end" x="{LEFT - 8}" y="{y + BAR * len(pairs) / 2 + 4:.1f}">{escape(name)}</text>')
        for index, (value, label) in enumerate(pairs):
            lines += [f'<rect class="c{index}" x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="{BAR - 2}"/>',
                      f'<text x="{LEFT + value * scale + 5:.1f}" y="{y + BAR - 4}">{escape(label)}</text>']
            y += BAR
        y += GAP
    return "\n".join(lines + ["</svg>", ""])
