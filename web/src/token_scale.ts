// Defines the color scale for log-probs, from likely to unlikely. Pure.
export type ScaleName = "4" | "1" | "10" | "quantiles";
export const kScales: [ScaleName, string][] = [["4", "0 to −4"], ["1", "0 to −1"], ["10", "0 to −10"], ["quantiles", "by quantile"]];

export interface Scale {
  share(logprob: number): number;             // 0 = the most likely color, 1 = the least likely one
  legend: { share: number; text: string }[];
}

// `logprobs` has all sampled tokens' log-probs. NaN is skipped. With quantiles, a token's share is the fraction of tokens that
// are more likely, so equal tokens get the color of the most likely one.
export function scaleOf(name: ScaleName, logprobs: Float32Array): Scale {
  if (name !== "quantiles") {
    const least = Number(name);
    return { share: (logprob) => Math.min(1, Math.max(0, -logprob / least)),
      legend: [{ share: 0, text: "log-prob 0" }, { share: 1, text: `log-prob −${name} and below` }] };
  }
  const sorted = logprobs.filter((one) => !Number.isNaN(one)).sort();
  const share = (logprob: number) => sorted.length < 2 ? 0 : (sorted.length - after(sorted, logprob)) / (sorted.length - 1);
  const quantile = (part: number) => sorted[Math.round((1 - part) * (sorted.length - 1))];
  const named: [number, string][] = [[0, "most likely"], [0.5, "median"], [0.9, "least likely 10% from"], [1, "least likely"]];
  const legend = sorted.length === 0 ? [] : named.map(([part, text]) => ({ share: share(quantile(part)), text: `${text} ${quantile(part).toPrecision(2)}` }));
  return { share, legend };
}

// Returns how many of the ascending values are at most `value`.
function after(sorted: Float32Array, value: number): number {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}
