#include "muster/tune/plot/page_texts.h"

namespace muster::tune {
namespace {

constexpr std::string_view kPageStyle = R"(
:root{color-scheme:light dark;--ink:#14181f;--soft:#5b6572;--edge:#dde1e7;--page:#fff;--tile:#f5f7f9;--hot:#e3edfa}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#98a2b0;--edge:#2c3440;--page:#14181f;--tile:#1c222b;--hot:#24354d}}
body{margin:0 auto;max-width:1010px;padding:24px 20px 48px;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:24px;line-height:1.25;margin:0 0 2px;overflow-wrap:anywhere}h2{font-size:17px;margin:34px 0 8px}
p{margin:4px 0;overflow-wrap:anywhere}.dim{color:var(--soft)}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:20px 0 8px;padding:0}
.tiles div{background:var(--tile);border:1px solid var(--edge);border-radius:8px;padding:8px 16px;min-width:96px}
.tiles dt{color:var(--soft);font-size:13px}.tiles dd{margin:0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.panels{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:22px 20px;margin-top:26px}
.panels svg{width:100%;height:auto;display:block;overflow:visible}.wide,.panels h2{grid-column:1/-1}.panels h2{margin:14px 0 -8px}
@media (max-width:760px){.panels{grid-template-columns:minmax(0,1fr)}}
.best{columns:2 340px;column-gap:40px;margin:8px 0 0}
.best div{display:flex;gap:16px;justify-content:space-between;border-bottom:1px solid var(--edge);padding:3px 0;break-inside:avoid}
.best dt{color:var(--soft)}.best dd,td{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:13px}
.best dd{margin:0;text-align:right;overflow-wrap:anywhere}
.scroll{overflow:auto;max-height:640px;border:1px solid var(--edge);border-radius:8px}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}
th{position:sticky;top:0;background:var(--tile);color:var(--soft);font-weight:500;text-align:left;white-space:nowrap}
th,td{padding:4px 12px;border-bottom:1px solid var(--edge)}td.n{text-align:right}
td{white-space:nowrap;max-width:360px;overflow:hidden;text-overflow:ellipsis}
.js th{cursor:pointer}th[aria-sort=ascending]::after{content:" \2191"}th[aria-sort=descending]::after{content:" \2193"}
tr.hot td{background:var(--hot)}
.js [data-item]{cursor:pointer}path.l.hot{stroke-width:3.5;opacity:1;stroke:var(--ink)}
circle.hot,rect.hot,path.hot:not(.l){stroke:var(--ink);stroke-width:2;opacity:1}
#tip{position:fixed;z-index:2;pointer-events:none;background:var(--page);border:1px solid var(--edge);border-radius:8px;
padding:8px 12px;font-size:13px;max-width:380px;box-shadow:0 4px 18px #0003;display:none}
#tip dl{display:grid;grid-template-columns:auto auto;gap:0 14px;margin:4px 0 0}#tip dt{color:var(--soft)}
#tip dd{margin:0;font-family:ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
@media print{body{max-width:none;padding:0}.panels svg{break-inside:avoid}.scroll{max-height:none;overflow:visible}}
)";

// Items are trials: what of them is drawn, and their row, is marked together.
constexpr std::string_view kPageScript = R"(
const trials = JSON.parse(document.getElementById('trials').textContent);
const tip = document.getElementById('tip'), parts = new Map();
document.documentElement.classList.add('js');
for (const part of document.querySelectorAll('[data-item]')) {
  const item = part.dataset.item;
  if (!parts.has(item)) parts.set(item, []);
  parts.get(item).push(part);
}
let hot = null;
function mark(item) {
  if (item === hot) return;
  for (const part of parts.get(hot) || []) part.classList.remove('hot');
  for (const part of parts.get(item) || []) part.classList.add('hot');
  hot = item;
}
function element(name, text) {
  const out = document.createElement(name);
  out.textContent = text;
  return out;
}
function tell(item) {
  const trial = trials.items[item];
  if (!trial) return false;
  const list = document.createElement('dl');
  trials.names.forEach((name, i) => {
    if (trial[i] === null) return;
    list.append(element('dt', name), element('dd', trial[i]));
  });
  tip.replaceChildren(list);
  return true;
}
function move(event) {
  const part = event.target.closest('[data-item]');
  const item = part ? part.dataset.item : null;
  const changed = item !== hot;
  mark(item);
  if (!part || part.tagName === 'TR') { tip.style.display = 'none'; return; }
  if (changed || tip.style.display === 'none') { if (!tell(item)) return; tip.style.display = 'block'; }
  const box = tip.getBoundingClientRect();
  const right = event.clientX + 16 + box.width > innerWidth;
  tip.style.left = Math.max(4, right ? event.clientX - 16 - box.width : event.clientX + 16) + 'px';
  tip.style.top = Math.max(4, Math.min(event.clientY + 12, innerHeight - box.height - 4)) + 'px';
}
document.addEventListener('pointermove', move);
document.addEventListener('pointerleave', () => { mark(null); tip.style.display = 'none'; });
document.addEventListener('click', event => {
  const part = event.target.closest('svg [data-item]');
  const row = part ? document.querySelector(`tr[data-item="${part.dataset.item}"]`) : null;
  if (row) row.scrollIntoView({ block: 'nearest' });
});
const table = document.querySelector('table');
const number = text => text === '' || text === '\u2013' ? NaN : Number(text);
function sort(head) {
  const column = [...head.parentNode.children].indexOf(head);
  const down = head.getAttribute('aria-sort') === 'ascending';
  for (const other of head.parentNode.children) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const rows = [...table.tBodies[0].rows].map(row => {
    const cell = row.cells[column];
    return [cell.dataset.v === undefined ? cell.textContent : cell.dataset.v, row];
  });
  const numeric = rows.every(([text]) => text === '' || text === '\u2013' || !isNaN(Number(text)));
  // What has no value is last in both directions.
  const none = text => numeric ? isNaN(number(text)) : text === '';
  rows.sort(([a], [b]) => {
    if (none(a) || none(b)) return none(a) - none(b);
    const order = numeric ? number(a) - number(b) : a.localeCompare(b, undefined, { numeric: true });
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
}
if (table) for (const head of table.tHead.rows[0].cells) {
  head.tabIndex = 0;
  head.addEventListener('click', () => sort(head));
  head.addEventListener('keydown', event => { if (event.key === 'Enter') sort(head); });
}
)";

}  // namespace

std::string_view page_style() { return kPageStyle; }
std::string_view page_script() { return kPageScript; }

}  // namespace muster::tune
