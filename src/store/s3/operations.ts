// The requests that this driver sends, by their names in S3's documentation and in policies, and what each is for.
import type { StoreUse } from '../contract/store.ts';

export const USES = {
  GetObject: 'read',
  HeadObject: 'read',
  ListObjectsV2: 'read',
  PutObject: 'write',
  CreateMultipartUpload: 'write',
  UploadPart: 'write',
  CompleteMultipartUpload: 'write',
  CopyObject: 'write',
  UploadPartCopy: 'write',
  DeleteObject: 'remove',
  AbortMultipartUpload: 'remove',
  ListMultipartUploads: 'remove',
} as const satisfies Readonly<Record<string, StoreUse>>;

export type Operation = keyof typeof USES;
