#include "muster/track/page/run_page.h"

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/track/page/curves.h"
#include "muster/track/page/panel_svg.h"
#include "muster/track/utf8.h"

namespace muster::track {
namespace {

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--ink:#14181f;--soft:#5b6572;--edge:#dde1e7;--page:#fff;--tile:#f5f7f9;--link:#1a5fb4}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#98a2b0;--edge:#2c3440;--page:#14181f;--tile:#1c222b;--link:#7fb3f5}}
body{margin:0 auto;max-width:1080px;padding:24px 20px 48px;background:var(--page);color:var(--ink);
font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:24px;line-height:1.25;margin:0 0 2px;overflow-wrap:anywhere}h2{font-size:17px;margin:34px 0 8px}
p{margin:4px 0}a{color:var(--link)}.dim{color:var(--soft)}
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin:20px 0 8px;padding:0}
.tiles div{background:var(--tile);border:1px solid var(--edge);border-radius:8px;padding:8px 16px;min-width:110px}
.tiles dt{color:var(--soft);font-size:13px}.tiles dd{margin:0;font-size:21px;font-weight:600;font-variant-numeric:tabular-nums}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:14px;margin-top:14px}
.panels svg{width:100%;height:auto;display:block}.panels svg:hover .cursor.on{visibility:visible}
.panels .v{font-variant-numeric:tabular-nums}.at{paint-order:stroke;stroke:var(--page);stroke-width:4px;font-weight:600}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
.confusion td{padding:4px 7px;text-align:right;border:1px solid var(--edge)}.confusion thead td{border:0}
.confusion th{font-weight:500;padding:4px 8px;text-align:right;white-space:nowrap}.confusion thead th{vertical-align:bottom}
.confusion thead span{writing-mode:vertical-rl;transform:rotate(180deg)}.confusion .none{color:var(--soft);opacity:.55}
.confusion .sum{color:var(--soft)}
.list td,.list th{padding:3px 18px 3px 0;text-align:left;border-bottom:1px solid var(--edge)}.list th{color:var(--soft);font-weight:500}
.plan{columns:2 380px;column-gap:40px;margin:0}
.plan div{display:flex;gap:16px;justify-content:space-between;border-bottom:1px solid var(--edge);padding:3px 0;break-inside:avoid}
.about{margin:0}.about div{display:flex;gap:16px;padding:3px 0}.about dt{color:var(--soft);min-width:90px}
.about dd{margin:0;overflow-wrap:anywhere;font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:13px}
.plan dt{color:var(--soft)}.plan dd{margin:0;text-align:right;overflow-wrap:anywhere;font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:13px}
ul{padding-left:20px;margin:6px 0}
@media print{body{max-width:none;padding:0;font-size:11pt}.panels{grid-template-columns:1fr 1fr}.panels svg,.scroll,.tiles{break-inside:avoid}
h2,h2+p{break-after:avoid}.confusion td{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
)";

// Shows each curve's value at the drawn step nearest to the pointer, in the legend; without a
// pointer the legend holds the last values.
constexpr std::string_view kScript = R"(
for (const g of document.querySelectorAll('[data-curves]')) {
  const svg = g.closest('svg'), d = JSON.parse(g.dataset.curves);
  const cursor = svg.querySelector('.cursor'), at = svg.querySelector('.at'), legend = [...svg.querySelectorAll('.v')];
  const last = legend.map(v => v.textContent);
  const nearest = (points, x) => points.reduce((a, b) => Math.abs(b[1] - x) < Math.abs(a[1] - x) ? b : a);
  svg.addEventListener('pointermove', e => {
    const x = new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
    const full = d.s.filter(points => points.length);
    if (x < d.l || x > d.r || !full.length) return svg.onpointerleave();
    const hit = nearest(full.map(points => nearest(points, x)), x);
    cursor.setAttribute('transform', `translate(${hit[1]})`);
    cursor.classList.add('on');
    at.setAttribute('x', Math.min(hit[1] + 5, d.r - 70));
    at.textContent = 'step ' + hit[0];
    for (const v of legend) { const s = d.s[v.dataset.s]; if (s.length) v.textContent = nearest(s, hit[1])[2]; }
  });
  svg.onpointerleave = () => {
    cursor.classList.remove('on');
    at.textContent = '';
    legend.forEach((v, i) => v.textContent = last[i]);
  };
}
)";

std::string head(const std::string& title) {
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      title,
      "</title>\n<style>",
      kStyle,
      panel_style(),
      "</style>\n</head>\n<body>\n");
}

std::string results_html(const RunPage& page) {
  if (page.results.empty()) return "";
  std::string out = "<dl class=\"tiles\">\n";
  for (const auto& [name, value] : page.results) {
    out += concat("<div><dt>", escape_xml(name), "</dt><dd>", escape_xml(value), "</dd></div>\n");
  }
  return out + "</dl>\n";
}

std::string curves_html(const RunPage& page) {
  const Curves curves = curves_of(page.metrics, page.title, page.steps_per_epoch);
  if (curves.panels.empty()) return "<p class=\"dim\">No metrics yet.</p>\n";
  const PanelSize size;
  std::string out = "<div class=\"panels\">\n";
  for (const Panel& panel : curves.panels) {
    out += concat("<svg viewBox=\"0 0 ",
                  coordinate(size.width),
                  ' ',
                  coordinate(size.height),
                  "\" role=\"img\" aria-label=\"",
                  escape_xml(panel.title),
                  "\">\n",
                  panel_svg(panel, curves.epochs, size, /*hover=*/true),
                  "</svg>\n");
  }
  return out + "</div>\n";
}

/// A relative path as a link: with ':' encoded no scheme can come out of it.
std::string href(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/._~-").find(c) != std::string_view::npos;
    if (plain) {
      out += c;
    } else {
      constexpr std::string_view kHex = "0123456789ABCDEF";
      out += {'%', kHex[static_cast<uint8_t>(c) >> 4], kHex[static_cast<uint8_t>(c) & 15]};
    }
  }
  return out;
}

std::string files_html(const RunPage& page) {
  if (page.files.empty()) return "";
  std::string out = "<h2>Files</h2>\n<ul>\n";
  for (const PageLink& link : page.files) {
    // "./" keeps "//host" from being one.
    out += concat("<li><a href=\"./", href(link.path), "\">", escape_xml(link.path), "</a>");
    if (!link.note.empty())
      out += concat(" <span class=\"dim\">", escape_xml(link.note), "</span>");
    out += "</li>\n";
  }
  return out + "</ul>\n";
}

std::string plain(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void plan_rows(const Json& value, const std::string& name, std::string& out) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, inner] : value.items()) {
      plan_rows(inner, name.empty() ? key : name + "." + key, out);
    }
    return;
  }
  const std::string text = plain(value);
  out += concat("<div><dt>",
                escape_xml(name),
                "</dt><dd>",
                text.empty() ? "<span class=\"dim\">&#8211;</span>" : escape_xml(text),
                "</dd></div>\n");
}

std::string about_html(const RunPage& page) {
  if (page.about.empty()) return "";
  std::string out = "<h2>Run</h2>\n<dl class=\"about\">\n";
  for (const auto& [name, value] : page.about)
    out += concat("<div><dt>", escape_xml(name), "</dt><dd>", escape_xml(value), "</dd></div>\n");
  return out + "</dl>\n";
}

std::string plan_html(const RunPage& page) {
  if (!page.plan.is_object() || page.plan.empty()) return "";
  std::string out = "<h2>Plan</h2>\n<dl class=\"plan\">\n";
  plan_rows(page.plan, "", out);
  return out + "</dl>\n";
}

}  // namespace

std::string render_run_page(const RunPage& page) {
  const std::string title = escape_xml(page.title);
  std::string out = head(title) + concat("<header>\n<h1>", title, "</h1>\n");
  if (!page.subtitle.empty()) {
    out += concat("<p class=\"dim\">", escape_xml(page.subtitle), "</p>\n");
  }
  out += "</header>\n" + results_html(page) + curves_html(page);
  if (!page.confusion.classes.empty() || !page.confusion.counts.empty()) {
    out += confusion_html(page.confusion);
  }
  out += about_html(page) + files_html(page) + plan_html(page);
  return out + concat("<script>", kScript, "</script>\n</body>\n</html>\n");
}

}  // namespace muster::track
