// A trial that does nothing: one tagged line on stdout with the first number of the command line as
// its loss. The keys st_… are what Syne Tune's reporter adds.
#include <cstdio>
#include <cstdlib>
#include <ctime>

int main(int argc, char** argv) {
  double loss = 0;
  for (int i = 1; i < argc && loss == 0; ++i) loss = std::atof(argv[i]);
  std::printf(
      "[tune-metric]: {\"loss\": %.17g, \"step\": 1, \"st_worker_timestamp\": %ld.0, "
      "\"st_worker_time\": 0.001, \"st_worker_iter\": 0}\n",
      loss,
      static_cast<long>(std::time(nullptr)));
}
