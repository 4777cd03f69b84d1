#include "sessions.h"

#include "regions.h"
#include "session.h"

namespace hyperoffload {

Table<Session> &sessions() {
  static auto &it = *new Table<Session>("session");
  return it;
}

Table<Region> &regions() {
  static auto &it = *new Table<Region>("region");
  return it;
}

}  // namespace hyperoffload
