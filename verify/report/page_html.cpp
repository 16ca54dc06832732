#include "verify/report/page_html.h"

#include <fmt/format.h>

#include "verify/output/markup.h"
#include "verify/report/report_style.h"

namespace verify {

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
