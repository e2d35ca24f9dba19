/** Storage formats by name: GGML type id, elements and bytes per block. A test holds this table against csrc/quant/formats.def.h. */

export interface Dtype {
  id: number;
  name: string;
  blockElements: number;
  blockBytes: number;
}

const ROWS: Array<[number, string, number, number]> = [
  [0, "F32", 1, 4],
  [1, "F16", 1, 2],
  [2, "Q4_0", 32, 18],
  [3, "Q4_1", 32, 20],
  [6, "Q5_0", 32, 22],
  [7, "Q5_1", 32, 24],
  [8, "Q8_0", 32, 34],
  [10, "Q2_K", 256, 84],
  [11, "Q3_K", 256, 110],
  [12, "Q4_K", 256, 144],
  [13, "Q5_K", 256, 176],
  [14, "Q6_K", 256, 210],
  [16, "IQ2_XXS", 256, 66],
  [17, "IQ2_XS", 256, 74],
  [18, "IQ3_XXS", 256, 98],
  [19, "IQ1_S", 256, 50],
  [20, "IQ4_NL", 32, 18],
  [21, "IQ3_S", 256, 110],
  [22, "IQ2_S", 256, 82],
  [23, "IQ4_XS", 256, 136],
  [29, "IQ1_M", 256, 56],
  [30, "BF16", 1, 2],
  [34, "TQ1_0", 256, 54],
  [35, "TQ2_0", 256, 66],
  [39, "MXFP4", 32, 17],
  [40, "NVFP4", 64, 36],
  [256, "F8_E4M3", 1, 1],
];

export const DTYPES: ReadonlyMap<string, Dtype> = new Map(
  ROWS.map(([id, name, blockElements, blockBytes]) => [name, { id, name, blockElements, blockBytes }]),
);

const BY_ID: ReadonlyMap<number, Dtype> = new Map([...DTYPES.values()].map((dtype) => [dtype.id, dtype]));

/** The format of a GGML type id; undefined for one we do not decode. */
export function dtypeOfId(id: number): Dtype | undefined {
  return BY_ID.get(id);
}

/** Bytes of `rows` rows of `cols` values; undefined when a row is no whole number of blocks. */
export function tensorBytes(dtype: Dtype, rows: number, cols: number): number | undefined {
  return cols % dtype.blockElements === 0 ? cols / dtype.blockElements * dtype.blockBytes * rows : undefined;
}
