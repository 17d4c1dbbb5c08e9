// One page: the sources of src/view/page with the data of the heads put in.
#include <string>
#include <string_view>

#include "headwise/view.h"
#include "view/encode.h"
#include "view/page_data.h"
#include "view/page_sources.h"
#include "view/shown_heads.h"

namespace headwise {

namespace {

// Once: what was put in is never searched for places again, whatever tokens say.
std::string filled(
    std::string_view page,
    const std::initializer_list<std::pair<std::string_view, std::string_view>>& parts) {
  std::string result;
  while (!page.empty()) {
    const std::size_t place = page.find("{{");
    result += page.substr(0, place);
    if (place == std::string_view::npos) break;
    const std::size_t end = page.find("}}", place);
    const std::string_view name = page.substr(place + 2, end - place - 2);
    for (const auto& [key, text] : parts) {
      if (key == name) result += text;
    }
    page.remove_prefix(end + 2);
  }
  return result;
}

}  // namespace

std::string draw_html(const AttentionPicture& picture, const HtmlOptions& options) {
  const view::ShownHeads shown = view::shown_heads("draw_html", picture);
  const std::size_t page_bytes =
      view::kPageHtml.size() + view::kPageStyle.size() + view::kPageScript.size() + 200;
  const std::size_t room = options.most_bytes > page_bytes ? options.most_bytes - page_bytes : 0;
  return filled(view::kPageHtml, {{"script-hash", view::policy_hash(view::kPageScript)},
                                  {"style-hash", view::policy_hash(view::kPageStyle)},
                                  {"style", view::kPageStyle},
                                  {"data", view::page_data(shown, options, room)},
                                  {"script", view::kPageScript}});
}

}  // namespace headwise
