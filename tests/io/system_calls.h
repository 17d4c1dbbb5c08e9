// Lets system calls of this process fail, or end it: full disks and kills at a chosen moment, without
// a hook in the product. For processes made for that (child.h): it cannot be undone.
#pragma once

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <stdexcept>

namespace headwise::test_support {

inline void install(sock_fprog program) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    throw std::runtime_error("system calls cannot be filtered here");
  }
}

// From now on the system call does `action`; with `flags`, only where its third argument has them.
inline void on_system_call(long number, unsigned action, unsigned flags = 0) {
  constexpr auto kNumber = static_cast<unsigned>(offsetof(seccomp_data, nr));
  constexpr auto kThird = static_cast<unsigned>(offsetof(seccomp_data, args) + 16);
  std::array<sock_filter, 6> code = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kThird),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, flags == 0 ? ~0U : flags, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  if (flags == 0) code[3] = BPF_JUMP(BPF_JMP | BPF_JA, 0, 0, 0);
  install({static_cast<unsigned short>(code.size()), code.data()});
}

inline void fail_system_call(long number, int error, unsigned flags = 0) {
  on_system_call(number, SECCOMP_RET_ERRNO | static_cast<unsigned>(error), flags);
}
inline void die_at_system_call(long number) { on_system_call(number, SECCOMP_RET_KILL_PROCESS); }

}  // namespace headwise::test_support
