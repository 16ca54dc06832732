#include "verify/report/shards_html.h"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>

#include "verify/output/markup.h"
#include "verify/output/phrases.h"
#include "verify/report/html_table.h"

namespace verify {

namespace {

constexpr double kBarLeft = 90, kBarWidth = 1000;
constexpr int kBarColours = 8;  // of page.css
constexpr int kMostDrawnOwners = 256;

/// The bar of a bucket: elements from left to right.
struct BucketBar {
  sim::ElementRange range;
  double place(std::int64_t element) const {
    const double share = static_cast<double>(element - range.begin) /
                         static_cast<double>(std::max<std::int64_t>(range.size(), 1));
    return kBarLeft + share * kBarWidth;
  }
};

std::string box(const BucketBar& bar, const sim::ElementRange& range, int y, int colour,
                const std::string& text, const std::string& title) {
  const double left = bar.place(range.begin), width = bar.place(range.end) - left;
  const std::string shown =
      width > 7.0 * static_cast<double>(text.size())
          ? fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>", left + 3, y + 17, markup_text(text))
          : "";
  const std::string classes = colour < 0 ? "empty" : fmt::format("fill{}", colour % kBarColours);
  return fmt::format(
      "<g><title>{}</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"24\"/>{}</g>",
      markup_text(title), classes, left, y, width, shown);
}

std::string name_of(const std::vector<std::string>& names, int parameter) {
  return names.empty() ? fmt::format("{}", parameter) : names[static_cast<std::size_t>(parameter)];
}

std::string bucket_svg(const ShownBuffer& buffer, const sim::Bucket& bucket) {
  const sim::BufferLayout& layout = buffer.layout;
  const BucketBar bar{bucket.range};
  const bool is_sharded = layout.config.distributed_optimizer && layout.config.owners <= kMostDrawnOwners;
  std::string svg =
      fmt::format("<svg class=\"buffer\" viewBox=\"0 0 1100 {}\" role=\"img\">", is_sharded ? 64 : 32);
  svg += "<text x=\"0\" y=\"21\">parameters</text>" + box(bar, bucket.range, 4, -1, "", "padding");
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const int parameter = bucket.parameters[i];
    const sim::ElementRange& range = layout.parameters[static_cast<std::size_t>(parameter)].range;
    const std::string name = name_of(buffer.names, parameter);
    svg += box(bar, range, 4, static_cast<int>(i), name,
               fmt::format("{}: elements {} to {}", name, range.begin, range.end));
  }
  if (is_sharded) {
    svg += "<text x=\"0\" y=\"53\">owners</text>";
    const std::int64_t part = bucket.range.size() / layout.config.owners;
    for (int rank = 0; rank < layout.config.owners; ++rank) {
      const sim::ElementRange own{bucket.range.begin + rank * part, bucket.range.begin + (rank + 1) * part};
      svg += box(bar, own, 36, rank, fmt::format("rank {}", rank),
                 fmt::format("rank {} owns elements {} to {}", rank, own.begin, own.end));
    }
  }
  return svg + "</svg>\n";
}

constexpr const char* kSteps =
    "<h2>A step with ZeRO-1</h2>\n<ol>\n"
    "<li>The backward pass adds gradients to the buffer. Every rank has the whole buffer.</li>\n"
    "<li>A full bucket is reduced (reduce-scatter): each owner gets the sum of its part over all "
    "ranks.</li>\n"
    "<li>Each owner updates its part of the parameters. Only it has the optimizer states of this part.</li>\n"
    "<li>Each bucket is gathered (all-gather): all ranks get the updated parameters of all owners.</li>\n"
    "</ol>\n";

/// Returns a sentence about a buffer, and its buckets.
std::string buffer_html(const ShownBuffer& buffer) {
  const sim::BufferLayout& layout = buffer.layout;
  std::string html = buffer.title.empty() ? "" : fmt::format("<h2>{}</h2>\n", markup_text(buffer.title));
  html += fmt::format(
      "<p>{}, {} in {}, {}. A part may hold the end of one parameter and the start of another.</p>\n",
      counted(std::ssize(layout.parameters), "parameter"), grouped_digits(layout.numel()) + " elements",
      counted(std::ssize(layout.buckets), "bucket"),
      layout.config.distributed_optimizer
          ? fmt::format("each cut over {}", counted(layout.config.owners, "rank"))
          : "which every rank holds whole");
  const std::size_t drawn = std::min(layout.buckets.size(), kMostDrawnBuckets);
  if (drawn < layout.buckets.size())
    html += fmt::format("<p>The first {} of {} buckets are drawn.</p>\n", drawn, layout.buckets.size());
  for (std::size_t i = 0; i < drawn; ++i) {
    const sim::Bucket& bucket = layout.buckets[i];
    html += fmt::format("<h3>Bucket {}: elements {} to {}, {} of padding at the end</h3>\n", i,
                        grouped_digits(bucket.range.begin), grouped_digits(bucket.range.end),
                        grouped_digits(bucket.range.size() - bucket.numel_unpadded)) +
            bucket_svg(buffer, bucket);
  }
  return html;
}

}  // namespace

std::string shards_html(std::span<const ShownBuffer> buffers) {
  std::string html = buffers.size() == 1 ? "<h1>A gradient buffer</h1>\n" : "<h1>Gradient buffers</h1>\n";
  if (buffers.front().layout.config.distributed_optimizer) html += kSteps;
  for (const ShownBuffer& buffer : buffers) html += buffer_html(buffer);
  return page_html("shardproof: gradient buffers", html);
}

}  // namespace verify
