#include "io/hdf5_walk.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/hdf5_attribute.h"
#include "io/hdf5_contents.h"
#include "io/hdf5_dataset.h"
#include "io/hdf5_handle.h"
#include "io/hdf5_image.h"
#include "io/hdf5_names.h"
#include "io/hdf5_type.h"
#include "io/malformed.h"
#include "io/quoted.h"

namespace headwise::io {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& problem) {
  malformed(quoted(path) + ": " + problem);
}

struct Link {
  std::string name;
  H5L_type_t type;
};

// Names are collected first, and followed after: a callback of libhdf5 must not throw, and what it
// is told about damaged trees does not end by itself.
struct Names {
  std::vector<Link> links;
  std::size_t most = 0;
  bool is_too_long = false;
};

herr_t collect(Names& names, const char* name, H5L_type_t type) noexcept {
  try {
    names.is_too_long = names.links.size() >= names.most;
    if (names.is_too_long) return -1;
    names.links.push_back({name, type});
    return 0;
  } catch (const std::exception&) {  // no memory
    return -1;
  }
}

herr_t collect_link(hid_t /*group*/, const char* name, const H5L_info_t* info, void* names) {
  return collect(*static_cast<Names*>(names), name, info->type);
}

herr_t collect_attribute(hid_t /*object*/, const char* name, const H5A_info_t* /*info*/,
                         void* names) {
  return collect(*static_cast<Names*>(names), name, H5L_TYPE_HARD);
}

class Walk {
 public:
  Walk(Bytes file, ChildOutput& output) : file_(open_hdf5_image(file)), output_(output) {}

  void run() {
    const Hdf5Handle root = opened(H5Oopen(file_.get(), "/", H5P_DEFAULT), H5Oclose, "");
    visit(root.get(), "", 0);
  }

 private:
  void visit(hid_t object, const std::string& path, std::size_t depth) {
    visit_once(object, path);
    switch (H5Iget_type(object)) {
      case H5I_GROUP:
        visit_attributes(object, path);
        visit_group(object, path, depth);
        break;
      case H5I_DATASET:
        visit_dataset(object, path);
        break;
      default:
        refuse(path, "is neither a group nor a dataset");
    }
  }

  // Two links to one object make loops, and of a small file as large a tree as one likes.
  void visit_once(hid_t object, const std::string& path) {
    H5O_info_t info;
    if (H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0) fail_hdf5(path, "cannot be read");
    if (!visited_.insert(info.addr).second) refuse(path, "is reached by two links, or by a loop");
  }

  void visit_group(hid_t group, const std::string& path, std::size_t depth) {
    if (depth >= kMaxHdf5Depth) refuse(path, "groups are nested too deep");
    Names names{.links = {}, .most = kMaxHdf5Objects - objects_};
    const herr_t done =
        H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect_link, &names);
    count(names, done, path, "its links cannot be listed");
    for (const Link& link : names.links) {
      const std::string target = path.empty() ? link.name : path + "/" + link.name;
      check_link(link, path, target);
      const Hdf5Handle object =
          opened(H5Oopen(group, link.name.c_str(), H5P_DEFAULT), H5Oclose, target);
      visit(object.get(), target, depth + 1);
    }
  }

  static void check_link(const Link& link, const std::string& group, const std::string& target) {
    if (!is_hdf5_name(link.name)) refuse(group, "holds something named " + quoted(link.name));
    if (target.size() > kMaxHdf5PathBytes) refuse(target, "has a path that is too long");
    if (link.type == H5L_TYPE_SOFT) refuse(target, "is a soft link, which is not followed");
    if (link.type == H5L_TYPE_EXTERNAL) refuse(target, "is a link to another file");
    if (link.type != H5L_TYPE_HARD) refuse(target, "is a link of an unknown kind");
  }

  void visit_dataset(hid_t dataset, const std::string& path) {
    Metadata texts = attributes(dataset, path);
    // How Keras says that pairs of bytes are numbers; the type says it from here on.
    const auto dtype = texts.find("dtype");
    const bool says_bfloat16 = dtype != texts.end() && dtype->second == "bfloat16";
    if (says_bfloat16) texts.erase(dtype);
    send(path, texts);
    output_.send(describe_hdf5_dataset(dataset, path, types_, says_bfloat16));
  }

  void visit_attributes(hid_t group, const std::string& path) {
    send(path, attributes(group, path));
  }

  Metadata attributes(hid_t object, const std::string& path) {
    Names names{.links = {}, .most = kMaxHdf5Objects - objects_};
    const herr_t done =
        H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect_attribute, &names);
    count(names, done, path, "its attributes cannot be listed");
    Metadata texts;
    for (const Link& link : names.links) {
      // "group/path@attribute" could not tell where such a name begins.
      if (link.name.empty() || link.name.find('@') != std::string::npos) continue;
      if (auto text = read_hdf5_text(object, link.name, path + "@" + link.name)) {
        texts.insert_or_assign(link.name, std::move(*text));
      }
    }
    return texts;
  }

  void send(const std::string& path, const Metadata& texts) {
    for (const auto& [name, text] : texts) {
      std::string key = path;
      key.append("@").append(name);
      output_.send(encode_attribute(key, text));
    }
  }

  void count(const Names& names, herr_t done, const std::string& path, const char* problem) {
    if (names.is_too_long) malformed("holds too many objects");
    if (done < 0) fail_hdf5(path, problem);
    objects_ += names.links.size();
  }

  Hdf5Handle file_;
  ChildOutput& output_;
  Hdf5Types types_;
  std::set<haddr_t> visited_;
  std::size_t objects_ = 0;
};

}  // namespace

void walk_hdf5(Bytes file, ChildOutput& output) {
  prepare_libhdf5();
  Walk(file, output).run();
}

}  // namespace headwise::io
