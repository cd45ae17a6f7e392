% AMAGOLD on the double well in plain Octave, written here as a stand-in for the authors' published script: one chain,
% trajectories of 10 steps with fresh momentum, a draw a trajectory. It speaks as pace.py says.
1;
crash_dumps_octave_core(false); sigterm_dumps_octave_core(false); sighup_dumps_octave_core(false);
function x = draws(number, x)
  epsilon = 0.1; beta = 0.25; U = @(x) (x + 4) .* (x + 1) .* (x - 1) .* (x - 3) / 14 + 0.5;
  gradU = @(x) (4 * x .^ 3 + 3 * x .^ 2 - 26 * x - 1) / 14 + randn(1);
  for i = 1:number
    r = randn(1); rho = 0; old = x;
    x = x + epsilon / 2 * r;
    for step = 1:10
      if step > 1
        x = x + epsilon * r;
      end
      g = gradU(x); before = r;
      r = ((1 - epsilon * beta) * r - epsilon * g + sqrt(4 * epsilon * beta) * randn(1)) / (1 + epsilon * beta);
      rho = rho + epsilon / 2 * g * (before + r);
    end
    x = x + epsilon / 2 * r;
    if rand(1) > exp(U(old) - U(x) + rho)
      x = old;
    end
  end
end
begun = cputime(); x = draws(100, 0); printf("ready %.3f\n", cputime() - begun); fflush(stdout);
while ! isempty(fread(stdin, 1))  % not fgetl, which waits for the next line, too
  begun = cputime(); x = draws(4000, x); printf("%.9g %d\n", cputime() - begun, 4000); fflush(stdout);
end
