// What a chart shows.
export interface ChartSpec {
  title: string;
  names: string[];
  labels?: string[];  // of the curves, shorter than their names
  opens: "step" | "eval" | null;
  x?: string;         // what the horizontal axis shows; default: steps
}

export const kColours = ["#c2571a", "#2f74b5", "#3a8a54", "#8a5ab5", "#b5852f", "#b53a5c", "#3a9aa0", "#7a7a7a"];
