// A trial that does nothing: one tagged line on stdout, {"loss": <first number of the command line>}.
#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  double loss = 0;
  for (int i = 1; i < argc && loss == 0; ++i) loss = std::atof(argv[i]);
  std::printf("[tune-metric]: {\"loss\": %.17g, \"step\": 1}\n", loss);
}
