#include "verify/report/page_html.h"

#include <fmt/format.h>

#include "verify/output/markup.h"

namespace verify {

const char* report_style() {
  return R"(
:root { color-scheme: light dark;
  --ground: #ffffff; --panel: #f5f6f8; --ink: #1b1f24; --soft: #57606a; --rule: #d5d9df;
  --good: #176b35; --bad: #b42318; --care: #8a5300;
  --part0: #3b7dd8; --part1: #d9822b; --part2: #6a9f3c; --part3: #8a63c9;
  --g0: #cfe3fb; --g1: #fbdcc0; --g2: #d3efcf; --g3: #ecd3f4; --g4: #fbe9a6; --g5: #c6eceb; --g6: #fbcfd6;
  --g7: #dcdfe4; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #15181d; --panel: #1d2229; --ink: #eef1f5; --soft: #a5afbb; --rule: #39414c;
  --good: #6fd08c; --bad: #ff8a80; --care: #f0b95a;
  --part0: #6aa5f2; --part1: #e9a35c; --part2: #93c766; --part3: #b695ee;
  --g0: #23456f; --g1: #6a3f1b; --g2: #28552c; --g3: #57306a; --g4: #5d4d0e; --g5: #1c5654; --g6: #6d2a36;
  --g7: #434a54; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
main { max-width: 1500px; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .5rem 0; overflow-wrap: anywhere; max-width: 75rem; }
section { border-top: 2px solid var(--rule); margin-top: 2.5rem; padding-top: 1rem; }
a { color: inherit; }
code, pre { font-family: ui-monospace, monospace; font-size: .85rem; }
pre { background: var(--panel); padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere;
  margin: .5rem 0; }
.soft { color: var(--soft); }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.care { color: var(--care); font-weight: 600; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0;
  border-bottom: 1px solid var(--rule); }
th { color: var(--soft); font-weight: 600; }
.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.name { white-space: nowrap; }
.wide { min-width: 9rem; overflow-wrap: anywhere; }
.bar { display: block; width: clamp(4rem, 20vw, 14rem); height: .8rem; margin-top: .3rem;
  background: var(--panel); }
.part0 { fill: var(--part0); } .part1 { fill: var(--part1); } .part2 { fill: var(--part2); }
.part3 { fill: var(--part3); }
.key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 .8rem; }
.key.part0 { background: var(--part0); } .key.part1 { background: var(--part1); }
.key.part2 { background: var(--part2); } .key.part3 { background: var(--part3); }
.nodes { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(17rem, 100%), 1fr));
  gap: .75rem; }
.node { background: var(--panel); padding: .5rem; }
.ranks { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 3px; margin-top: .3rem; }
.ranks > span { padding: .1rem .3rem; line-height: 1.2; overflow-wrap: anywhere;
  font-variant-numeric: tabular-nums; }
.ranks small { display: block; font-size: .7rem; }
.g0 { background: var(--g0); } .g1 { background: var(--g1); } .g2 { background: var(--g2); }
.g3 { background: var(--g3); } .g4 { background: var(--g4); } .g5 { background: var(--g5); }
.g6 { background: var(--g6); } .g7 { background: var(--g7); }
.gantt svg, .curve { display: block; width: 100%; height: auto; }
.curve { max-width: 600px; background: var(--panel); }
.curve text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.curve .axis { stroke: var(--rule); }
.curve .line0 { fill: none; stroke: var(--part0); stroke-width: 2; }
.curve .line1 { fill: none; stroke: var(--part1); stroke-width: 8; stroke-opacity: .7; }
tfoot td { font-weight: 600; border-bottom: 0; }
td[title] { cursor: help; text-decoration: underline dotted var(--soft); text-underline-offset: .2em; }
summary { cursor: pointer; }
.sorts th input { display: none; }
@supports selector(:has(a)) and (grid-template-columns: subgrid) {
  .sorts { display: grid; grid-template-columns: repeat(var(--columns), auto); justify-content: start; }
  .sorts thead, .sorts tbody, .sorts tfoot, .sorts tr { display: grid; grid-column: 1 / -1;
    grid-template-columns: subgrid; }
  .sorts label { cursor: pointer; white-space: nowrap; }
  .sorts th input { display: inline; appearance: none; margin: 0; }
  .sorts th input::after { content: "\25BE"; padding-left: .2rem; opacity: .35; }
  .sorts th input:checked::after { opacity: 1; }
  .sorts th:has(input:checked) { color: var(--ink); }
  .sorts th:has(input:focus-visible) { outline: 2px solid var(--part0); }
  .sorts:has(.by0:checked) tbody tr { order: var(--by0); }
  .sorts:has(.by1:checked) tbody tr { order: var(--by1); }
  .sorts:has(.by2:checked) tbody tr { order: var(--by2); }
  .sorts:has(.by3:checked) tbody tr { order: var(--by3); }
  .sorts:has(.by4:checked) tbody tr { order: var(--by4); }
  .sorts:has(.by5:checked) tbody tr { order: var(--by5); }
  .sorts:has(.by6:checked) tbody tr { order: var(--by6); }
  .sorts:has(.by7:checked) tbody tr { order: var(--by7); }
}
@media print { details::details-content { content-visibility: visible; } section { break-inside: auto; } }
)";
}

std::string page_html(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\" id=\"top\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\"/>\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>"
      "\n</html>\n",
      markup_text(title), report_style(), body);
}

}  // namespace verify
