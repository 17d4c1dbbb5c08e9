#include "layouts/grouping.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "layouts/bystanders.h"

namespace headwise::layouts {

namespace {

using layer::Axes;
using layer::StoredTensor;

constexpr std::array<std::string_view, 4> kKernels = {"query/kernel", "key/kernel", "value/kernel",
                                                      "attention_output/kernel"};

std::string with_slashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '.', '/');
  return text;
}

// Ends of names → what they are, in any dialect.
class Endings {
 public:
  struct Meaning {
    std::size_t dialect;
    const StoredTensor* stored;
  };

  Endings() {
    const auto& all = dialects();
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const StoredTensor& stored : all[i].tensors) {
        meanings_[with_slashes(stored.name)].push_back({i, &stored});
        longest_ = std::max(longest_, stored.name.size());
      }
    }
  }

  // Calls with the front and the meanings of every end of the name that has some. The work is
  // bounded by the longest ending there is, however long the name.
  template <typename Visit>
  void visit(std::string_view name, const Visit& visit_one) const {
    std::string_view body = name;
    if (body.ends_with(":0")) body.remove_suffix(2);  // as TensorFlow numbers outputs
    const std::size_t tail_begin = body.size() - std::min(body.size(), longest_ + 1);
    const std::string tail = with_slashes(body.substr(tail_begin));
    for (std::size_t place = tail.rfind('/'); place != std::string::npos;
         place = place == 0 ? std::string::npos : tail.rfind('/', place - 1)) {
      find(tail.substr(place + 1), body.substr(0, tail_begin + place), visit_one);
    }
    if (tail_begin == 0) find(tail, body.substr(0, 0), visit_one);
  }

 private:
  template <typename Visit>
  void find(const std::string& ending, std::string_view front, const Visit& visit_one) const {
    const auto found = meanings_.find(ending);
    if (found == meanings_.end()) return;
    for (const Meaning& meaning : found->second) visit_one(front, meaning);
  }

  std::unordered_map<std::string, std::vector<Meaning>> meanings_;
  std::size_t longest_ = 0;
};

std::vector<Group> all_groups(std::span<const NamedShape> tensors) {
  static const Endings endings;
  std::vector<Group> groups;
  std::vector<std::unordered_map<std::string_view, std::size_t>> places(dialects().size());
  for (const NamedShape& tensor : tensors) {
    endings.visit(tensor.name, [&](std::string_view front, const Endings::Meaning& meaning) {
      if (!rank_fits(*meaning.stored, tensor.shape.rank())) return;
      const auto [place, is_new] = places[meaning.dialect].emplace(front, groups.size());
      if (is_new) groups.push_back({&dialects()[meaning.dialect], front, {}});
      groups[place->second].members.push_back({meaning.stored, &tensor});
    });
  }
  return groups;
}

// The chosen group below whose front a tensor stands.
class Fronts {
 public:
  explicit Fronts(const std::vector<Group>& groups) {
    for (std::size_t i = 0; i < groups.size(); ++i) places_.emplace(groups[i].front, i);
  }

  [[nodiscard]] std::optional<std::size_t> above(std::string_view name) const {
    constexpr int kDeepest = 12;  // so much deeper stands no part of a layer; bounds the work
    for (int depth = 0; depth < kDeepest; ++depth) {
      const std::size_t separator = name.find_last_of("./");
      name = name.substr(0, separator == std::string_view::npos ? 0 : separator);
      if (const auto found = places_.find(name); found != places_.end()) return found->second;
      if (separator == std::string_view::npos) break;
    }
    return std::nullopt;
  }

 private:
  std::unordered_map<std::string_view, std::size_t> places_;
};

std::string_view first_part(std::string_view name) {
  return name.substr(0, name.find_first_of("./"));
}

// Below a layer without a name stands the whole file. What its own are then tell their names: they
// begin as those of the dialect do, or with what they belong to, or have one part only.
bool may_be_own(const Group& group, std::string_view rest) {
  const std::string_view first = first_part(rest);
  if (!group.front.empty() || first.size() == rest.size()) return true;
  const auto& known = group.dialect->tensors;
  if (std::any_of(known.begin(), known.end(),
                  [&](const StoredTensor& stored) { return first_part(stored.name) == first; })) {
    return true;
  }
  constexpr std::array<std::string_view, 6> kBelongTo = {"q_", "k_", "v_", "query", "key", "value"};
  return std::any_of(kBelongTo.begin(), kBelongTo.end(),
                     [&](std::string_view begin) { return first.starts_with(begin); });
}

void add_strays(std::span<const NamedShape> tensors,
                const std::unordered_set<const NamedShape*>& taken, std::vector<Group>& groups) {
  const Fronts fronts(groups);
  for (const NamedShape& tensor : tensors) {
    if (taken.contains(&tensor)) continue;
    const auto place = fronts.above(tensor.name);
    if (!place) continue;
    Group& group = groups[*place];
    const std::string_view rest = group.rest_of(tensor);
    if (may_be_own(group, rest) && !is_bystander(rest, tensor.shape.rank())) {
      group.strays.push_back(&tensor);
    }
  }
}

}  // namespace

bool rank_fits(const StoredTensor& stored, int rank) {
  const bool kernel = stored.role.ends_with("/kernel");
  const bool output = stored.role.starts_with("attention_output/");
  switch (stored.axes) {
    case Axes::Row:
      return rank == 3;
    case Axes::OutIn:
      return rank == 2;
    case Axes::Flat:
      return rank == (kernel ? 2 : 1);
    case Axes::ByHead:
      break;
  }
  // Keras's output may have several axes.
  if (output) return rank >= (kernel ? 3 : 1);
  return rank == (kernel ? 3 : 2);
}

const Member* Group::find(std::string_view role) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const Member& member) {
    return member.stored->role == role;
  });
  return found == members.end() ? nullptr : &*found;
}

int Group::kernels() const {
  int count = 0;
  const bool packed = find("in/kernel") != nullptr;
  for (const std::string_view role : kKernels) {
    count += find(role) != nullptr || (packed && role != kKernels.back()) ? 1 : 0;
  }
  return count;
}

std::string_view Group::rest_of(const NamedShape& tensor) const {
  const std::string_view name = tensor.name;
  return front.empty() ? name : name.substr(front.size() + 1);
}

std::vector<Group> group_by_name(std::span<const NamedShape> tensors) {
  std::vector<Group> groups = all_groups(tensors);
  std::vector<std::pair<int, std::size_t>> order;  // whole ones first, then as dialects are listed
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (const int kernels = groups[i].kernels(); kernels >= 3) order.emplace_back(-kernels, i);
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    const Group& one = groups[a.second];
    const Group& other = groups[b.second];
    return one.dialect != other.dialect ? one.dialect < other.dialect : a.second < b.second;
  });
  std::unordered_set<const NamedShape*> taken;
  std::vector<Group> chosen;
  for (const auto& [kernels, place] : order) {
    Group& group = groups[place];
    std::erase_if(group.members,
                  [&](const Member& member) { return taken.contains(member.tensor); });
    if (group.kernels() != -kernels) continue;  // what is left of it belongs to another
    for (const Member& member : group.members) taken.insert(member.tensor);
    chosen.push_back(std::move(group));
  }
  add_strays(tensors, taken, chosen);
  return chosen;
}

}  // namespace headwise::layouts
